"use strict";

// How a rule walks over a drafted tree, told from its stop law alone. The same
// as tv_jax/runs/report/walks.py, whose docstring has the formulas. Pure functions.
window.explorer = (() => {
  const ROOT = 0;

  const isTopDown = (cycle, rule) => cycle.direction?.[rule] === "down";

  /** Of a list of parents: children, depths and the post-order. */
  function treeOf(parents) {
    const children = parents.map(() => []);
    const depth = parents.map(() => 0);
    parents.forEach((parent, node) => {
      if (node === ROOT) return;
      children[parent].push(node);
      depth[node] = depth[parent] + 1;
    });
    const postorder = [];
    const visit = (node) => {
      children[node].forEach(visit);
      postorder.push(node);
    };
    visit(ROOT);
    return { children, depth, postorder };
  }

  /** The nodes from the root, which is left out, down to this one. */
  function pathTo(parents, node) {
    const path = [];
    for (; node !== ROOT; node = parents[node]) path.unshift(node);
    return path;
  }

  /** For each node, how likely the accepted one is it or below it. */
  function reach(cycle, rule) {
    const sums = [...cycle.stop[rule]];
    for (let node = sums.length - 1; node > ROOT; node--) {
      sums[cycle.parents[node]] += sums[node];
    }
    return sums;
  }

  /** For each node its chance when it is offered; null where it never is. */
  function chances(cycle, rule) {
    const { children, postorder } = treeOf(cycle.parents);
    const stop = cycle.stop[rule];
    const chance = stop.map(() => null);
    const offer = (node, now, left) => {
      if (left > 0) chance[node] = now / left;
    };
    if (!isTopDown(cycle, rule)) {
      let left = 0;
      for (const node of [...postorder].reverse()) {
        left += stop[node];
        offer(node, stop[node], left);
      }
      return chance;
    }
    const sums = reach(cycle, rule);
    offer(ROOT, sums[ROOT], sums[ROOT]);
    children.forEach((siblings, parent) => {
      let left = stop[parent];
      for (const node of [...siblings].reverse()) {
        left += sums[node];
        offer(node, sums[node], left);
      }
    });
    return chance;
  }

  /**
   * What a rule decides with the cycle's coins: {steps, node}.
   *
   * Where the rule is the one that ran, its decision is known: `known` is then
   * the accepted node, and a coin that lies within rounding of its chance is
   * read as the run read it.
   */
  function walk(cycle, rule, known) {
    const { children, postorder } = treeOf(cycle.parents);
    const chance = chances(cycle, rule);
    const taken = known === undefined ? [] : pathTo(cycle.parents, known);
    const steps = [];
    const accepts = (node) => {
      if (known === undefined) return cycle.coins[node] < chance[node];
      return isTopDown(cycle, rule) ? taken.includes(node) : node === known;
    };
    const firstHit = (nodes) =>
      nodes.find((node) => {
        if (node === ROOT || cycle.pieces[node] === null) return false;
        const coin = cycle.coins[node];
        const accepted = accepts(node);
        steps.push({ node, coin, chance: chance[node], accepted });
        return accepted;
      });
    if (!isTopDown(cycle, rule)) return { node: firstHit(postorder) ?? ROOT, steps };
    let node = ROOT;
    for (let next = ROOT; next !== undefined; next = firstHit(children[node])) {
      node = next;
    }
    return { node, steps };
  }

  /** Tokens that the rule gains from this draft on average, with the bonus. */
  function expectedLength(cycle, rule) {
    const { depth } = treeOf(cycle.parents);
    return cycle.stop[rule].reduce(
      (sum, chance, node) => sum + chance * (depth[node] + 1),
      0,
    );
  }

  return {
    ROOT,
    chances,
    expectedLength,
    isTopDown,
    pathTo,
    reach,
    treeOf,
    walk,
  };
})();
