"use strict";

// The tree explorer: how each rule walked over a drafted tree, as the run kept
// it. All rules step together, over the same coins.
{
  const { traces, runs, colors } = JSON.parse(
    document.getElementById("traces").textContent,
  );
  const home = document.getElementById("explorer");
  const part = (name) => home.querySelector(`[data-part="${name}"]`);
  const state = { trace: traces[0], cycle: 0, step: 0 };
  let panels = [];

  // Numbers and words.

  const pick = matchMedia("(hover: hover)").matches ? "Point at" : "Tap";

  const MARKS = { " ": "·", "\n": "⏎", "\t": "⇥", "\r": "␍" };
  const token = (piece) =>
    piece === null ? "none" : piece.replace(/\s/g, (c) => MARKS[c] ?? c) || "∅";
  const number = (x) => {
    if (x === null || x === undefined) return "–";
    if (x > 0 && x < 0.001) return x.toExponential(0);
    return x >= 0.9995 && x < 1 ? "~1" : x.toFixed(3);
  };

  function element(name, attributes = {}, ...content) {
    const svg = ["svg", "g", "rect", "path", "text"].includes(name);
    const kind = svg ? "http://www.w3.org/2000/svg" : "http://www.w3.org/1999/xhtml";
    const result = document.createElementNS(kind, name);
    for (const pair of Object.entries(attributes)) result.setAttribute(...pair);
    result.append(...content);
    return result;
  }

  // Trees: node 0 is the root, and a parent stands before its children.

  const pathTo = (parents, node) =>
    node ? [...pathTo(parents, parents[node]), node] : [];
  const depthOf = (parents, node) => pathTo(parents, node).length;

  /** For each node, how likely the accepted one is it or below it. */
  function reach({ parents, stop }, rule) {
    const sums = [...stop[rule]];
    for (let node = sums.length - 1; node; node--) {
      sums[parents[node]] += sums[node];
    }
    return sums;
  }

  /** Tokens that a rule gains from this draft on average, with the bonus. */
  function expectedLength({ parents, stop }, rule) {
    const lengths = stop[rule].map((x, node) => x * (depthOf(parents, node) + 1));
    return lengths.reduce((a, b) => a + b, 0);
  }

  /** What has become of each node after so many steps: a class, or none. */
  function marksAt(cycle, rule, step) {
    const { parents, coins, pieces } = cycle;
    const { steps, node: last } = cycle.walks[rule];
    const down = cycle.direction[rule] === "down";
    const done = steps.slice(0, step);
    const taken = done.filter(([node, chance]) => coins[node] < chance);
    const ended = step > steps.length;
    const kept = pathTo(parents, ended ? last : (taken.at(-1)?.[0] ?? 0));
    const rejected = done
      .filter(([node, chance]) => coins[node] >= chance)
      .map(([node]) => node);
    return parents.map((_, node) => {
      const above = pathTo(parents, node);
      if (!node || kept.includes(node)) return "kept";
      if (rejected.includes(node)) return "rejected";
      if (pieces[node] === null) return "none";
      const lost = down && above.some((x) => rejected.includes(x));
      return ended || lost ? "gone" : "";
    });
  }

  /** One step in words. */
  function telling(cycle, rule, step) {
    const { parents, coins, pieces, walks } = cycle;
    const { steps, node: last } = walks[rule];
    const down = cycle.direction[rule] === "down";
    if (step > steps.length) {
      const text = pathTo(parents, last).map((node) => pieces[node]).join("");
      const kept = last ? `Node ${last} is kept: “${token(text)}” and` : "Nothing is kept:";
      return `${kept} a bonus token, ${depthOf(parents, last) + 1} in all.`;
    }
    if (!step) return down ? "From the root down." : "Children before parents.";
    const [node, chance] = steps[step - 1];
    const accepted = coins[node] < chance;
    let [a, b] = [coins[node], chance].map(number);
    if (a === b) [a, b] = [coins[node], chance].map((x) => x.toFixed(9));
    let verdict = "rejected";
    if (accepted) verdict = down ? "accepted: step down" : "accepted, with all above it";
    else if (down) verdict = "rejected, with all below it";
    const sign = accepted ? "<" : "≥";
    return `Node ${node} “${token(pieces[node])}”: coin ${a} ${sign} chance ${b} → ${verdict}`;
  }

  // A tree as SVG: a column for each depth, siblings in the order of their draw.

  function draw(cycle, rule) {
    const { parents, pieces } = cycle;
    const small = parents.length > 40 || innerWidth < 640;
    const [height, pitch] = small ? [18, 22] : [33, 40];
    const labels = pieces.map((piece) => {
      const letters = [...token(piece)];
      return letters.length > 10 ? `${letters.slice(0, 9).join("")}…` : letters.join("");
    });
    // Most letters beyond the Latin ones are twice as wide.
    const wide = (label) => 7 * label.length + 7 * (label.match(/[\u1100-\uffff]/g) ?? []).length;
    const widths = labels.map((label, node) =>
      Math.max(24 + wide(label), small || !node ? 0 : 84),
    );
    const depths = parents.map((_, node) => depthOf(parents, node));
    const left = [4];
    for (let d = 0; d <= Math.max(...depths); d++) {
      const widest = Math.max(...widths.filter((_, node) => depths[node] === d));
      left.push(left[d] + widest + 14);
    }
    let row = 0;
    const middle = [];
    (function place(node) {
      const below = parents.flatMap((parent, child) => (child && parent === node ? [child] : []));
      below.forEach(place);
      middle[node] = below.length
        ? (middle[below[0]] + middle[below.at(-1)]) / 2
        : 4 + height / 2 + pitch * row++;
    })(0);
    const mass = reach(cycle, rule);
    const groups = parents.map((parent, node) => {
      const [x, y] = [left[depths[node]], middle[node]];
      const group = element("g", { "data-node": node });
      if (node) {
        const from = left[depths[parent]] + widths[parent];
        const d = `M${from} ${middle[parent]}C${from + 7} ${middle[parent]} ${x - 7} ${y} ${x} ${y}`;
        group.append(element("path", { d, "stroke-width": 0.8 + 5 * mass[node] }));
      }
      const box = { x, y: y - height / 2, width: widths[node], height, rx: 4 };
      const base = small || !node ? y + 4 : y - 2;
      group.append(
        element("rect", box),
        element("text", { x: x + 4, y: base, class: "small" }, node),
        element("text", { x: x + 20, y: base, class: "token" }, labels[node]),
      );
      if (!small && node && pieces[node] !== null) {
        const laws = `p ${number(cycle.p[node])} q ${number(cycle.q[node])}`;
        group.append(element("text", { x: x + 4, y: y + 11, class: "small" }, laws));
      }
      return group;
    });
    // A little too wide, it shrinks; wider, it scrolls.
    const width = left.at(-1) - 10;
    const size = {
      viewBox: `0 0 ${width} ${8 + pitch * row}`,
      style: `min-width: ${0.8 * width}px; max-width: ${width}px`,
    };
    return element("svg", size, ...groups);
  }

  /** Makes a rule's panel: {root, end, show}. */
  function panel(cycle, rule, ran) {
    const { steps, node: last } = cycle.walks[rule];
    const chance = new Map(steps);
    const svg = draw(cycle, rule);
    const said = element("p", { class: "said" });
    const about = element("p", { class: "about" }, `${pick} a node to see its numbers.`);
    const head = element("div", { class: "head" });
    const length = expectedLength(cycle, rule).toFixed(3);
    const gained = depthOf(cycle.parents, last) + 1;
    head.append(
      element("h3", {}, rule),
      ran ? "ran" : "on the same coins",
      element("span", { class: "numbers" }, `expected ${length}, gained ${gained}`),
    );
    const field = element("div", { class: "tree" }, svg);
    const root = element("section", { class: "panel", "data-rule": rule }, head, said, field, about);
    root.style.setProperty("--own", colors[rule]);
    for (const name of ["click", "pointerover"]) {
      svg.addEventListener(name, ({ target }) => {
        const node = Number(target.closest("g")?.dataset.node ?? 0);
        if (!node) return;
        about.textContent =
          `Node ${node} “${token(cycle.pieces[node])}”: p ${number(cycle.p[node])},` +
          ` q ${number(cycle.q[node])}, drawn with ${number(cycle.drawn[node])},` +
          ` coin ${number(cycle.coins[node])}, chance ${number(chance.get(node))},` +
          ` stops here ${number(cycle.stop[rule][node])}`;
      });
    }
    function show(step) {
      const marks = marksAt(cycle, rule, step);
      const now = step > steps.length ? null : steps[step - 1]?.[0];
      [...svg.children].forEach((group, node) => {
        const current = node && node === now ? "current" : "";
        group.setAttribute("class", `node ${marks[node]} ${current}`);
      });
      said.textContent = telling(cycle, rule, step);
      const box = svg.children[now ?? 0].querySelector("rect");
      const right = box.x.baseVal.value + box.width.baseVal.value;
      const scale = svg.clientWidth / svg.viewBox.baseVal.width;
      field.scrollLeft = scale * right + 24 - field.clientWidth; // keeps it in view
    }
    return { root, end: steps.length + 1, show };
  }

  // What there is to choose: each select offers what those before it leave.

  const KEYS = {
    tree: ({ tree }) => tree,
    question: ({ task, question, turn }) =>
      `${task} ${question}${turn ? `, turn ${turn + 1}` : ""}`,
    run: (trace) => runs[traces.indexOf(trace)],
  };
  const nameOf = ({ prompt, cycles, ...key }) => Object.values(key).join("/");
  const gainedIn = ({ parents, pieces, node, bonus }) =>
    [...pathTo(parents, node).map((x) => pieces[x]), bonus].join("");

  function fill(select, options, value) {
    select.replaceChildren(...options.map(([value, text]) => element("option", { value }, text)));
    select.value = value;
    select.parentElement.hidden = options.length < 2;
  }

  function render() {
    const { trace } = state;
    let left = traces;
    for (const [name, key] of Object.entries(KEYS)) {
      const values = [...new Set(left.map(key))];
      fill(part(name), values.map((value) => [value, value]), key(trace));
      left = left.filter((other) => key(other) === key(trace));
    }
    fill(part("cycle"), trace.cycles.map((_, i) => [i, `${i + 1}`]), state.cycle);
    const cycle = trace.cycles[state.cycle];
    const rules = Object.keys(colors).filter((rule) => rule in cycle.stop);
    panels = rules.map((rule) => panel(cycle, rule, rule === trace.verifier));
    part("panels").replaceChildren(...panels.map(({ root }) => root));
    show();
  }

  function show() {
    const end = Math.max(...panels.map((x) => x.end));
    state.step = Math.min(Math.max(state.step, 0), end);
    panels.forEach((x) => x.show(Math.min(state.step, x.end)));
    part("count").textContent = `step ${state.step} of ${end}`;
    const { trace, cycle, step } = state;
    const gained = gainedIn(trace.cycles[cycle]);
    part("context").replaceChildren(
      element("span", {}, trace.prompt ?? ""),
      trace.cycles.slice(0, cycle).map(gainedIn).join(""),
      ...(step === end ? [element("mark", {}, gained)] : []),
    );
  }

  function move(change) {
    Object.assign(state, change);
    if ("cycle" in change) render();
    else show();
    const address = { trace: nameOf(state.trace), cycle: state.cycle, step: state.step };
    history.replaceState(null, "", `#${new URLSearchParams(address)}`);
  }

  /** Opens the step that the address has. */
  function recall() {
    const asked = new URLSearchParams(location.hash.slice(1));
    const trace = traces.find((x) => nameOf(x) === asked.get("trace"));
    if (!trace) return;
    const cycle = Number(asked.get("cycle"));
    Object.assign(state, { trace, cycle: cycle in trace.cycles ? cycle : 0 });
    state.step = Number(asked.get("step"));
  }

  for (const [name, key] of Object.entries(KEYS)) {
    part(name).addEventListener("change", ({ target }) => {
      const alike = (trace) =>
        Object.values(KEYS).filter((of) => of(trace) === of(state.trace)).length;
      const fits = traces.filter((trace) => key(trace) === target.value);
      const trace = fits.reduce((a, b) => (alike(b) > alike(a) ? b : a));
      move({ trace, cycle: 0, step: 0 });
    });
  }
  part("cycle").addEventListener("change", ({ target }) =>
    move({ cycle: Number(target.value), step: 0 }),
  );
  const STEPS = { Home: -1e9, ArrowLeft: -1, ArrowRight: 1, End: 1e9 };
  const step = (key) => move({ step: state.step + STEPS[key] });
  home.addEventListener("click", ({ target }) => {
    if (target.dataset.key) step(target.dataset.key);
  });
  document.addEventListener("keydown", (event) => {
    if (!(event.key in STEPS) || event.target.closest("select")) return;
    if (!home.matches(":hover, :focus-within")) return;
    step(event.key);
    event.preventDefault();
  });
  const begin = () => {
    recall();
    render();
  };
  window.addEventListener("hashchange", begin);
  begin();
}
