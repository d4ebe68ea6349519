"""The best part of a tree: one small pure function.

By Lemma 2 of the paper a traversal's E[length] = 1 + sum over nodes of W(v),
where W(v) = P(the accepted node is v or below v) depends on v's path of ranks
alone. So does token-level's. The best tree of n nodes is then the set of n
nodes of a wide one with the largest sum, with each node its parent and its
elder siblings.

W falls from a parent to its child; from an elder to its younger sibling it need
not (noise, or a proposal that draws the likeliest token last), and then to take
the largest node that may be taken is not best. A node's successors are its
first child and its next sibling, which makes a binary tree of it: the sets are
the tops of that, and the best ones are found from the leaves up.

Axes: N nodes.
"""

from __future__ import annotations

import numpy as np

from tv_jax.tree import NO_CHILD, NO_PARENT, ROOT, Tree


def best(
  tree: Tree, worth: np.ndarray, depth: int | None = None
) -> list[list[int]]:
  """The best nodes to draft: of each number, from 0 to all.

  Args:
    tree: The wide one.
    worth: [N] of each node; the root's does not matter.
    depth: Nodes below this are left out; None: none is.

  Returns:
    For each n the n nodes with the largest sum, in level order, the root aside,
    closed under parent and elder sibling.
  """
  kept = tree.depth <= (tree.max_depth if depth is None else depth)
  # Of a node, what hangs below it, and its younger siblings with what hangs
  # below these: the largest sums of n nodes; how many of them hang below it.
  sums, below = {NO_CHILD: np.zeros(1)}, {}
  for node in range(len(tree) - 1, ROOT, -1):
    if kept[node]:
      child, sibling = _successors(tree, node, kept)
      found, below[node] = _split(sums[child], sums[sibling])
      sums[node] = np.concatenate([[0.0], worth[node] + found])
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
  """A node's first child and its next sibling, or NO_CHILD."""
  child = tree.children[node, 0]
  child = child if child != NO_CHILD and kept[child] else NO_CHILD
  after = node + 1
  twin = 0 < after < len(tree) and tree.parent[after] == tree.parent[node]
  return int(child), after if twin and node != ROOT else NO_CHILD


def _split(some, others):
  """The largest sums of n, of two lists of sums, and how many of the first."""
  total = np.full(len(some) + len(others) - 1, -np.inf)
  first = np.zeros(len(total), np.int32)
  for count, value in enumerate(some):
    own = slice(count, count + len(others))
    better = value + others > total[own]
    total[own] = np.where(better, value + others, total[own])
    first[own] = np.where(better, count, first[own])
  return total, first


def part(tree: Tree, nodes: list[int]) -> Tree:
  """The tree of some nodes, closed under parent and elder sibling."""
  place = {node: i for i, node in enumerate([ROOT, *nodes])}
  above = [place[int(tree.parent[node])] for node in nodes]
  return Tree((NO_PARENT, *above))


def places(tree: Tree, other: Tree) -> list[int] | None:
  """Where the nodes of another tree are, the root aside; None: not all are."""
  found = [ROOT]
  for node in range(1, len(other)):
    above, rank = found[other.parent[node]], other.rank[node]
    if rank >= tree.num_children[above]:
      return None
    found.append(int(tree.children[above, rank]))
  return found[1:]
