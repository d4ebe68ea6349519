"use strict";

// What has become of each node after so many steps of a walk.
Object.assign(
  window.explorer,
  (() => {
    const { ROOT, isTopDown, pathTo, treeOf } = window.explorer;

    /** All nodes at and below one. */
    function below(children, node) {
      return [node, ...children[node].flatMap((c) => below(children, c))];
    }

    /** For each node the classes that it has after so many steps. */
    function marksAt(cycle, rule, course, position) {
      const { children } = treeOf(cycle.parents);
      const marks = cycle.parents.map(() => new Set());
      const mark = (nodes, name) => nodes.forEach((n) => marks[n].add(name));
      cycle.pieces.forEach((piece, node) => {
        if (piece === null) marks[node].add("void");
      });
      let kept = ROOT;
      for (const step of course.steps.slice(0, position)) {
        if (step.accepted) {
          if (isTopDown(cycle, rule)) {
            // Younger siblings are never offered.
            const siblings = children[cycle.parents[step.node]];
            const younger = siblings.filter((n) => n > step.node);
            mark(
              younger.flatMap((n) => below(children, n)),
              "gone",
            );
          }
          kept = step.node;
        } else {
          marks[step.node].add("rejected");
          if (isTopDown(cycle, rule)) {
            mark(below(children, step.node).slice(1), "gone");
          }
        }
      }
      const ended = position > course.steps.length;
      if (ended) kept = course.node;
      mark(pathTo(cycle.parents, kept), "kept");
      if (ended) {
        marks[kept].add("last");
        marks.filter((own) => !own.size).forEach((own) => own.add("gone"));
        marks[ROOT].delete("gone");
      }
      const now = course.steps[position - 1];
      if (now && !ended) marks[now.node].add("current");
      return { marks, kept, ended, now };
    }

    return { marksAt };
  })(),
);
