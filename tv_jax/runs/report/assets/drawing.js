"use strict";

// The drafted tree as SVG: the root on the left, a column for each depth, and
// siblings from the top in the order in which they were drawn.
Object.assign(
  window.explorer,
  (() => {
    const { ROOT, brief, pathTo, reach, treeOf, visible } = window.explorer;

    const LETTER = 6.9; // width of one, of the nodes' monospaced font
    const LONGEST = 10; // letters of a token that are shown
    const MARGIN = 4;

    /** An element with attributes and text or children. */
    function element(name, attributes = {}, ...content) {
      const svg = "http://www.w3.org/2000/svg";
      const drawn = ["svg", "g", "rect", "path", "text", "tspan"];
      const made = drawn.includes(name)
        ? document.createElementNS(svg, name)
        : document.createElement(name);
      for (const [key, value] of Object.entries(attributes)) {
        made.setAttribute(key, value);
      }
      made.append(...content);
      return made;
    }

    function shortened(piece) {
      const letters = [...visible(piece)];
      if (letters.length <= LONGEST) return letters.join("");
      return `${letters.slice(0, LONGEST - 1).join("")}…`;
    }

    // Chinese, Japanese, Korean letters and most pictures are twice as wide.
    const WIDE = /^[\u1100-\u11ff\u2e80-\uffff]/;
    const widthOf = (text) =>
      LETTER * [...text].reduce((n, c) => n + (WIDE.test(c) ? 2 : 1), 0);

    /** What is drawn of a node: its number, its text, how wide it is. */
    function boxOf(tag, piece, least) {
      const label = shortened(piece);
      const indent = 9 + 5.2 * tag.length;
      const width = Math.max(indent + widthOf(label) + 6, least);
      return { tag, label, indent, width };
    }

    /**
     * Places for the nodes and, at the end, for the bonus below `last`.
     *
     * What hangs below a node without a token has none either, and no place.
     */
    function layout(cycle, last, compact) {
      const bonus = cycle.parents.length;
      const { children, depth } = treeOf([...cycle.parents, last]);
      const pieces = [...cycle.pieces, cycle.bonus];
      const height = compact ? 18 : 33;
      const pitch = height + (compact ? 4 : 7);
      const gap = compact ? 16 : 18;
      const boxes = pieces.map(() => undefined);
      const widest = [];
      let row = 0;
      const place = (node) => {
        const plain = compact || node === ROOT || node === bonus;
        const tag = node === bonus ? "+" : String(node);
        const box = boxOf(tag, pieces[node], plain ? 0 : 80);
        const below = pieces[node] === null ? [] : children[node];
        below.forEach(place);
        box.height = node === bonus ? 18 : height;
        box.y = below.length
          ? (boxes[below[0]].y + boxes[below.at(-1)].y) / 2
          : MARGIN + height / 2 + pitch * row++;
        boxes[node] = box;
        const d = depth[node];
        widest[d] = Math.max(widest[d] ?? 0, box.width);
      };
      place(ROOT);
      const left = [MARGIN];
      for (const width of widest) left.push(left.at(-1) + width + gap);
      boxes.forEach((box, node) => {
        if (box) box.x = left[depth[node]];
      });
      const width = left.at(-1) - gap + MARGIN;
      return { boxes, width, height: MARGIN * 2 + pitch * row };
    }

    function branch(from, to, weight) {
      const start = from.x + from.width;
      const middle = (start + to.x) / 2;
      const path =
        `M${start} ${from.y}` +
        `C${middle} ${from.y} ${middle} ${to.y} ${to.x} ${to.y}`;
      return element("path", { d: path, "stroke-width": weight.toFixed(2) });
    }

    function nodeBox(cycle, node, box, compact) {
      const made = element("g", { class: "node", "data-node": node });
      const top = box.y - box.height / 2;
      const base = compact || node === ROOT ? box.y + 4 : box.y - 2;
      made.append(
        element("rect", {
          x: box.x,
          y: top,
          width: box.width,
          height: box.height,
          rx: 4,
        }),
        element("text", { x: box.x + 5, y: base, class: "tag" }, box.tag),
        element("text", { x: box.x + box.indent, y: base }, box.label),
      );
      if (!compact && node !== ROOT && cycle.pieces[node] !== null) {
        const [p, q] = [cycle.p[node], cycle.q[node]].map(brief);
        const line = { x: box.x + 5, y: box.y + 11, class: "laws" };
        made.append(element("text", line, `p ${p} q ${q}`));
      }
      return made;
    }

    /**
     * Draws a tree: {svg, paint, place}.
     *
     * `paint(marks)` shows a set of classes for each node, and the bonus token
     * or not; `place(node)` says where a node is, if it is anywhere, and the
     * bonus token as the node after the last. A branch is as wide as it is
     * likely that the accepted node lies beyond it.
     */
    function draw(cycle, rule, last, { compact, ran }) {
      const shown = { ...cycle, bonus: ran ? cycle.bonus : "bonus" };
      const { boxes, width, height } = layout(shown, last, compact);
      const mass = reach(cycle, rule);
      const svg = element("svg", { width, height, role: "img" });
      const branches = cycle.parents.map((parent, node) =>
        node === ROOT || !boxes[node]
          ? null
          : branch(boxes[parent], boxes[node], 0.8 + 5.2 * mass[node]),
      );
      const nodes = cycle.parents.map((_, node) =>
        boxes[node] ? nodeBox(cycle, node, boxes[node], compact) : null,
      );
      const extra = boxes.at(-1);
      const bonus = element(
        "g",
        { class: "bonus" },
        branch(boxes[last], extra, 1.5),
        nodeBox(shown, cycle.parents.length, extra, true),
      );
      svg.append(...[...branches, ...nodes].filter(Boolean), bonus);

      function paint(marks, kept, ended) {
        const path = new Set(kept === ROOT ? [] : pathTo(cycle.parents, kept));
        nodes.forEach((own, node) => {
          own?.setAttribute("class", ["node", ...marks[node]].join(" "));
          branches[node]?.classList.toggle("kept", path.has(node));
          branches[node]?.classList.toggle("gone", marks[node].has("gone"));
        });
        bonus.classList.toggle("hidden", !ended);
      }

      return { svg, paint, place: (node) => boxes[node] };
    }

    return { draw, element };
  })(),
);
