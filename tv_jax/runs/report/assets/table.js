"use strict";

// All numbers of a cycle, for who cannot see a picture or wants to copy them.
Object.assign(
  window.explorer,
  (() => {
    const { ROOT, chances, element, number, visible } = window.explorer;

    function line(name, cells) {
      const isolated = (cell) => element("bdi", {}, String(cell));
      return element(
        "tr",
        {},
        ...cells.map((cell) => element(name, {}, isolated(cell))),
      );
    }

    /** The head and the body of the table of all nodes. */
    function nodesTable(cycle, rules) {
      const laws = rules.flatMap((rule) => [
        [`chance, ${rule}`, chances(cycle, rule)],
        [`stops here, ${rule}`, cycle.stop[rule]],
      ]);
      const columns = [
        ["p", cycle.p],
        ["q", cycle.q],
        ["drawn with", cycle.drawn],
        ["coin", cycle.coins.with(ROOT, null)],
        ...laws,
      ];
      const head = ["node", "below", "token", ...columns.map(([name]) => name)];
      const rows = cycle.parents.map((parent, node) => [
        node,
        node === ROOT ? "–" : parent,
        visible(cycle.pieces[node]),
        ...columns.map(([, values]) => number(values[node])),
      ]);
      return [
        element("thead", {}, line("th", head)),
        element("tbody", {}, ...rows.map((cells) => line("td", cells))),
      ];
    }

    return { nodesTable };
  })(),
);
