"""Which trees are best: small pure functions of what nodes are worth.

By Lemma 2 of the paper a traversal's E[length] = 1 + sum over nodes of W(v),
where W(v) = P(the accepted node is v or below v) depends on v's path of ranks
alone. So does token-level's. The best tree of n nodes is then the set of n
nodes of a wide tree with the largest sum, with each node its parent and its
elder siblings.

W falls from a parent to its child, but not always from an elder to its younger
sibling (noise, or a proposal that draws the likeliest token last). So a heap
that takes the largest node within reach is not always best. A node's successors
are its first child and its next sibling, which makes a binary tree of it: the
sets are the tops of that, and the best ones are found from the leaves up.

Axes: N nodes.
"""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from tv_jax.tree import NO_CHILD, NO_PARENT, ROOT, Tree, from_paths, grown

# What children are accepted with by rank, of a good, a middling and a poor
# draft: the share of all that is accepted, and that each next sibling is left.
_DRAFTS = [
  [share * (1 - left) * left**rank for rank in range(6)]
  for share, left in ((0.95, 0.2), (0.85, 0.4), (0.75, 0.6))
]


def wide(nodes: int, depth: int, beside: Iterable[Tree] = ()) -> Tree:
  """Returns a tree that has the best trees of most drafts as parts.

  Args:
    nodes: How many nodes would do for a good, a middling or a poor draft.
    depth: How many levels it has for them.
    beside: Trees that must be parts of it as well.
  """
  paths = {path for tree in beside for path in _paths_of(tree)}
  for acceptance in _DRAFTS:
    tree = grown(nodes, acceptance=acceptance)
    paths |= {path for path in _paths_of(tree) if len(path) <= depth}
  return from_paths(paths)


def _paths_of(tree: Tree) -> list[tuple[int, ...]]:
  """For each drafted node, the ranks on the way to it."""
  paths: list[tuple[int, ...]] = [()]
  for node in range(1, len(tree)):
    paths.append((*paths[tree.parent[node]], int(tree.rank[node])))
  return paths[1:]


def best(
  tree: Tree, worth: np.ndarray, depth: int | None = None
) -> list[list[int]]:
  """Returns the best nodes to draft: for each number, from 0 to all.

  Args:
    tree: The wide tree.
    worth: [N] what each node is worth; the root's is not read.
    depth: Nodes below this level are left out; None: none is.

  Returns:
    For each n the n drafted nodes with the largest sum, in level order, closed
    under parent and elder sibling.
  """
  kept = tree.depth <= (tree.max_depth if depth is None else depth)
  # For a node, what hangs below it and its younger siblings with what hangs
  # below these: the largest sums of n nodes, and how many of them are below it.
  sums: dict[int, np.ndarray] = {NO_CHILD: np.zeros(1)}
  below: dict[int, np.ndarray] = {}
  for node in range(len(tree) - 1, ROOT, -1):
    if kept[node]:
      child, sibling = _successors(tree, node, kept)
      rest, below[node] = _split(sums[child], sums[sibling])
      sums[node] = np.concatenate([[0.0], worth[node] + rest])
  first = _successors(tree, ROOT, kept)[0]
  chosen = []
  for count in range(len(sums[first])):
    nodes, left = [], [(first, count)]
    while left:
      node, count = left.pop()
      if count:
        nodes.append(node)
        child, sibling = _successors(tree, node, kept)
        under = int(below[node][count - 1])
        left += [(child, under), (sibling, count - 1 - under)]
    chosen.append(sorted(nodes))
  return chosen


def _successors(tree, node, kept):
  """Returns a node's first child and its next sibling, or NO_CHILD."""
  child = tree.children[node, 0]
  child = child if child != NO_CHILD and kept[child] else NO_CHILD
  after = node + 1
  twin = 0 < after < len(tree) and tree.parent[after] == tree.parent[node]
  return int(child), after if twin and node != ROOT else NO_CHILD


def _split(some, others):
  """Merges two lists of largest sums; says how many nodes are of the first."""
  total = np.full(len(some) + len(others) - 1, -np.inf)
  first = np.zeros(len(total), np.int32)
  for count, value in enumerate(some):
    span = slice(count, count + len(others))
    better = value + others > total[span]
    total[span] = np.where(better, value + others, total[span])
    first[span] = np.where(better, count, first[span])
  return total, first


def part(tree: Tree, nodes: list[int]) -> Tree:
  """Returns the tree of nodes closed under parent and elder sibling."""
  place = {node: i for i, node in enumerate([ROOT, *nodes])}
  above = [place[int(tree.parent[node])] for node in nodes]
  return Tree((NO_PARENT, *above))


def places(tree: Tree, other: Tree) -> list[int] | None:
  """Finds another tree's drafted nodes in a tree; None if one is not there."""
  nodes = [ROOT]
  for node in range(1, len(other)):
    above, rank = nodes[other.parent[node]], other.rank[node]
    if rank >= tree.num_children[above]:
      return None
    nodes.append(int(tree.children[above, rank]))
  return nodes[1:]
