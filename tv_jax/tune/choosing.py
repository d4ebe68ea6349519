"""Chooses the best tree of each size from the value of every node.

By Lemma 2 of the paper, the traversal's E[length] is 1 + the sum of W(v) over
the nodes, where W(v) = P(the accepted node is v or below v) depends on v's path
of sibling ranks alone. The same holds for token-level verification. The best
tree of n nodes is therefore the set of n nodes of a wide tree with the largest
sum, where each node comes with its parent and its elder siblings.

A greedy choice of the next largest W is not always best: W falls from parent to
child, but not always from elder to younger sibling (because of noise, or of a
proposal that draws the likeliest token last). Instead, each node has two
successors, its first child and its next sibling. In this binary tree, the valid
sets are the subtrees that contain the root. A dynamic program finds the best.

Axes: N nodes.
"""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from tv_jax.tree import NO_CHILD, ROOT, Tree, from_paths, grown

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
  # sums[v][n]: the largest sum of n nodes among v, its younger siblings and all
  # below them. under[v][n - 1]: how many of these nodes are below v.
  sums: dict[int, np.ndarray] = {NO_CHILD: np.zeros(1)}
  under: dict[int, np.ndarray] = {}
  for node in range(len(tree) - 1, ROOT, -1):
    child, sibling = _successors(tree, node)
    rest, under[node] = _split(sums[child], sums[sibling])
    sums[node] = np.concatenate([[0.0], values[node] + rest])
  chosen = []
  for count in range(int(np.isfinite(sums[ROOT + 1]).sum())):
    nodes, left = [], [(ROOT + 1, count)]
    while left:
      node, count = left.pop()
      if count:
        nodes.append(node)
        child, sibling = _successors(tree, node)
        below = int(under[node][count - 1])
        left += [(child, below), (sibling, count - 1 - below)]
    chosen.append(sorted(nodes))
  return chosen


def _successors(tree: Tree, node: int) -> tuple[int, int]:
  """Returns a node's first child and its next sibling, or NO_CHILD."""
  after = node + 1
  has_sibling = after < len(tree) and tree.parent[after] == tree.parent[node]
  return int(tree.children[node, 0]), after if has_sibling else NO_CHILD


def _split(some, others):
  """Returns the largest sums over both lists, and the counts of the first."""
  total = np.full(len(some) + len(others) - 1, -np.inf)
  first = np.zeros(len(total), np.int32)
  for count, value in enumerate(some):
    span = slice(count, count + len(others))
    better = value + others > total[span]
    total[span] = np.where(better, value + others, total[span])
    first[span] = np.where(better, count, first[span])
  return total, first


def part(tree: Tree, nodes: list[int]) -> Tree:
  """Returns the tree of a set of nodes from `best_nodes`."""
  paths = rank_paths(tree)
  return from_paths(paths[node] for node in nodes)


def places(tree: Tree, other: Tree) -> list[int] | None:
  """Returns the drafted nodes of `other` in `tree`; None if one is missing."""
  number = {path: node for node, path in enumerate(rank_paths(tree))}
  paths = rank_paths(other)[1:]
  return [number[x] for x in paths] if {*paths} <= {*number} else None
