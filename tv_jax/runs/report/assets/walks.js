"use strict";

// How a rule walked over a drafted tree, as the run kept it. Pure functions.
window.explorer = (() => {
  const ROOT = 0;

  const isTopDown = (cycle, rule) => cycle.direction[rule] === "down";

  /** Of a list of parents: children and depths. */
  function treeOf(parents) {
    const children = parents.map(() => []);
    const depth = parents.map(() => 0);
    parents.forEach((parent, node) => {
      if (node === ROOT) return;
      children[parent].push(node);
      depth[node] = depth[parent] + 1;
    });
    return { children, depth };
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

  /** What a rule decides with the cycle's coins: {steps, node}. */
  function walk(cycle, rule) {
    const { node, steps } = cycle.walks[rule];
    return {
      node,
      steps: steps.map(([node, chance]) => {
        const coin = cycle.coins[node];
        return { node, coin, chance, accepted: coin < chance };
      }),
    };
  }

  /** For each node what its coin was compared with; null where it was not. */
  function chances(cycle, rule) {
    const chance = cycle.parents.map(() => null);
    for (const [node, threshold] of cycle.walks[rule].steps) {
      chance[node] = threshold;
    }
    return chance;
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
