"""Chooses the best tree of each size from the value of every node.

By Lemma 2 of the paper, the traversal's E[length] is 1 + the sum of W(v) over
the nodes, where W(v) = P(the accepted node is v or below v) depends on v's path
of sibling ranks alone. The same holds for token-level verification. The best
tree of n nodes is therefore the set of n nodes of a wide tree with the largest
sum, where each node comes with its parent and its elder siblings.

A greedy choice of the next largest W is not always best: W falls from parent to
child, but not always from elder to younger sibling (because of noise, or of a
proposal that draws the likeliest token last). A dynamic program finds the best.

Axes: N nodes.
"""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from tv_jax.tree import ROOT, Tree, from_paths, grown

# Acceptance probabilities of siblings by rank, for good, middling and poor
# drafts: the sum over all siblings, and the ratio from one sibling to the next.
_DRAFTS = [
  [total * (1 - ratio) * ratio**rank for rank in range(6)]
  for total, ratio in ((0.95, 0.2), (0.85, 0.4), (0.75, 0.6))
]


def wide(nodes: int, depth: int, including: Iterable[Tree] = ()) -> Tree:
  """Returns a tree that contains the best trees of most drafts.

  Args:
    nodes: Size of the trees for a good, a middling and a poor draft.
    depth: Maximum depth of these trees.
    including: Trees that it must also contain.
  """
  chosen = {path for tree in including for path in rank_paths(tree)}
  for acceptance in _DRAFTS:
    tree = grown(nodes, acceptance=acceptance)
    chosen |= {path for path in rank_paths(tree) if len(path) <= depth}
  return from_paths(chosen)


def rank_paths(tree: Tree) -> list[tuple[int, ...]]:
  """Returns the path of sibling ranks to each node; the root's is empty."""
  paths: list[tuple[int, ...]] = [()]
  for node in range(1, len(tree)):
    paths.append((*paths[tree.parent[node]], int(tree.rank[node])))
  return paths


def best_nodes(tree: Tree, values: np.ndarray) -> list[list[int]]:
  """Returns the best set of nodes of each size, from 0 nodes to all.

  Args:
    tree: The wide tree.
    values: [N] value of each node; -inf excludes a node and all below it. The
      root's value is not read.

  Returns:
    For each n the n drafted nodes with the largest sum, in level order, closed
    under parent and elder sibling.
  """
  paths = rank_paths(tree)
  # Depth first, so that a node's parent and elder siblings stand before it.
  order = sorted(range(ROOT + 1, len(tree)), key=paths.__getitem__)
  place = {node: i for i, node in enumerate([ROOT, *order], start=-1)}
  below = tree.ancestors.sum(axis=0)  # with the node itself
  # Without a node, the next candidate is the first one outside its family.
  parents = [int(tree.parent[node]) for node in order]
  after = [place[parent] + int(below[parent]) for parent in parents]
  # sums[i, n]: the largest sum of n nodes among order[i:], with their families.
  sums = np.full((len(tree), len(tree)), -np.inf)
  sums[:, 0] = 0.0
  for i in reversed(range(len(order))):
    sums[i, 1:] = values[order[i]] + sums[i + 1, :-1]
    sums[i] = np.maximum(sums[i], sums[after[i]])
  chosen = []
  for count in range(int(np.isfinite(sums[0]).sum())):
    i, nodes = 0, []
    while (left := count - len(nodes)) > 0:
      if sums[i, left] > sums[after[i], left]:
        nodes.append(order[i])
        i += 1
      else:
        i = after[i]
    chosen.append(sorted(nodes))
  return chosen


def part(tree: Tree, nodes: list[int]) -> Tree:
  """Returns the tree of a set of nodes from `best_nodes`."""
  paths = rank_paths(tree)
  return from_paths(paths[node] for node in nodes)


def places(tree: Tree, other: Tree) -> list[int]:
  """Returns where `tree` has the drafted nodes of `other`, a part of it."""
  number = {path: node for node, path in enumerate(rank_paths(tree))}
  return [number[path] for path in rank_paths(other)[1:]]
