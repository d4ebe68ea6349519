"use strict";

// What the explorer says: numbers, tokens and sentences. Pure functions.
Object.assign(
  window.explorer,
  (() => {
    const { ROOT, isTopDown, pathTo, treeOf } = window.explorer;

    const MARKS = { " ": "·", "\n": "⏎", "\t": "⇥", "\r": "␍" };

    /** A token's text with what cannot be seen made visible. */
    function visible(piece) {
      if (piece === null) return "none";
      if (piece === "") return "∅";
      return piece.replace(
        /[\u0000-\u0020\u007f]/g,
        (c) => MARKS[c] ?? String.fromCharCode(0x2400 + (c.charCodeAt(0) & 63)),
      );
    }

    /** A probability: three digits, or more where they would be 0 or 1. */
    function number(x) {
      if (x === null || x === undefined || Number.isNaN(x)) return "–";
      if (x === 0 || x === 1) return String(x);
      if (x < 0.001) return x.toExponential(1);
      return x > 0.9995 && x < 1 ? x.toFixed(6) : x.toFixed(3);
    }

    /** A probability where there is little room; the panel has its digits. */
    function brief(x) {
      if (x === null || x === 0 || x === 1) return number(x);
      if (x < 0.0005) return "~0";
      return x > 0.9995 ? "~1" : x.toFixed(3);
    }

    /** A coin and a chance, with as many digits as tell them apart. */
    function apart(coin, chance) {
      for (let digits = 3; digits < 9; digits++) {
        const [a, b] = [coin, chance].map((x) => x.toFixed(digits));
        if (a !== b) return digits > 3 ? [a, b] : [coin, chance].map(number);
      }
      return [number(coin), number(chance)];
    }

    const tokens = (count) => `${count} token${count === 1 ? "" : "s"}`;

    const quote = (piece) => `“${visible(piece)}”`;

    /** What stands before the first coin. */
    function opening(cycle, rule, first) {
      if (first === undefined) return "No node was drawn: nothing is offered.";
      return isTopDown(cycle, rule)
        ? `From the root down: node ${first} is the first child to be offered.`
        : `Children before parents: node ${first} is the first to be offered.`;
    }

    /** One step in plain words. */
    function telling(cycle, rule, step) {
      const { node, accepted } = step;
      const own = `Node ${node} ${quote(cycle.pieces[node])}: `;
      const [coin, chance] = apart(step.coin, step.chance);
      const sign = accepted ? "<" : "≥";
      let verdict = accepted ? "accepted" : "rejected";
      if (isTopDown(cycle, rule)) {
        verdict += accepted ? ", step down" : ", with all below it";
      } else if (accepted && cycle.parents[node] !== ROOT) {
        verdict += ", with all above it";
      }
      return `${own}coin ${coin} ${sign} chance ${chance} → ${verdict}`;
    }

    /** How it ended. */
    function closing(cycle, rule, node, ran) {
      const gained = treeOf(cycle.parents).depth[node] + 1;
      const bonus = ran ? `the bonus ${quote(cycle.bonus)}` : "a bonus token";
      if (node === ROOT) return `Nothing was accepted: ${bonus} alone.`;
      const path = pathTo(cycle.parents, node);
      const text = quote(path.map((one) => cycle.pieces[one]).join(""));
      return `Node ${node} is kept: ${text} and ${bonus}, ${tokens(gained)}.`;
    }

    /** What is known of a node: pairs (term, text). */
    function numbersOf(cycle, rule, node, chance) {
      const [coin, threshold] = chance !== null
        ? apart(cycle.coins[node], chance)
        : ["–", "–"];
      return [
        [`node ${node}`, visible(cycle.pieces[node])],
        ["p", number(cycle.p[node])],
        ["q", number(cycle.q[node])],
        ["drawn with", number(cycle.drawn[node])],
        ["coin", coin],
        ["chance", threshold],
        ["stops here", number(cycle.stop[rule][node])],
      ];
    }

    return { brief, closing, number, numbersOf, opening, telling, tokens, visible };
  })(),
);
