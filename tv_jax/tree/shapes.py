"""Builders of trees."""

from __future__ import annotations

import heapq
import itertools
import operator
from collections.abc import Iterable, Sequence

from tv_jax.io.errors import UserError
from tv_jax.tree.static import MOST_NODES, NO_PARENT, ROOT, Tree, check_size


def from_parents(parents: Iterable[int]) -> Tree:
  """Builds a tree from the parent of each node; the root's is -1."""
  return Tree(tuple(int(parent) for parent in parents))


def from_paths(paths: Iterable[Sequence[int]]) -> Tree:
  """Builds a tree from paths of ranks, the format of EAGLE and Medusa.

  Args:
    paths: For each drafted node, in any order, the ranks on the path to it.
      `[0, 2]` is the third child of the root's first child.
  """
  nodes: set[tuple[int, ...]] = {()}
  nodes |= {tuple(int(rank) for rank in path) for path in paths}
  for path in sorted(nodes - {()}):
    elder = (*path[:-1], path[-1] - 1)
    if path[-1] < 0 or (path[-1] > 0 and elder not in nodes):
      raise UserError(
        f"node {list(path)} has no elder sibling {list(elder)}: ranks count"
        " from 0 without gaps"
      )
    if path[:-1] not in nodes:
      raise UserError(
        f"node {list(path)} has no parent: add the path {list(path[:-1])}"
      )
  ordered = sorted(nodes, key=lambda path: (len(path), path))
  index = {path: node for node, path in enumerate(ordered)}
  return from_parents([NO_PARENT, *(index[path[:-1]] for path in ordered[1:])])


def branching(widths: Sequence[int]) -> Tree:
  """Builds a tree where all nodes at depth d have `widths[d]` children."""
  if not widths or min(widths) < 1:
    raise UserError(
      f"branching {list(widths)}: give one positive width per level"
    )
  check_size(1 + sum(itertools.accumulate(widths, operator.mul)))
  parents, level = [NO_PARENT], range(ROOT, ROOT + 1)
  for width in widths:
    first = len(parents)
    parents += [node for node in level for _ in range(width)]
    level = range(first, len(parents))
  return from_parents(parents)


def kary(width: int, depth: int) -> Tree:
  """Builds the full tree of `depth` levels, with `width` children per node."""
  if depth >= MOST_NODES:  # a list of so many levels may not fit in memory
    raise UserError(
      f"{depth} levels: a tree may have at most {MOST_NODES} nodes"
    )
  return branching([width] * depth)


def chain(depth: int) -> Tree:
  """Builds a single path of `depth` drafted nodes."""
  return kary(1, depth)


def grown(
  nodes: int, *, acceptance: Sequence[float] = (0.8, 0.16, 0.032, 0.0064)
) -> Tree:
  """Builds the tree with the highest expected length, by Sequoia's model.

  In this model, every child of rank j is accepted with probability
  `acceptance[j]`. A node is then reached with the product of the probabilities
  on its path. The best tree consists of the nodes with the highest products.

  Args:
    nodes: Number of nodes, root included.
    acceptance: Acceptance probability of each rank. The default is 0.8 * 0.2^j.
  """
  sound = acceptance and all(0 < a < 1 for a in acceptance)
  if nodes < 2 or not sound or sum(acceptance) > 1:
    raise UserError(
      f"grown tree of {nodes} nodes, acceptance {tuple(acceptance)}: needs at"
      " least 2 nodes and chances above 0 that sum to at most 1"
    )
  check_size(nodes)
  acceptance = sorted(acceptance, reverse=True)
  paths: list[tuple[int, ...]] = []
  heap: list[tuple[float, tuple[int, ...]]] = [(-acceptance[0], (0,))]
  while len(paths) < nodes - 1:
    score, path = heapq.heappop(heap)
    paths.append(path)
    heapq.heappush(heap, (score * acceptance[0], (*path, 0)))
    rank = path[-1]
    if rank + 1 < len(acceptance):
      score *= acceptance[rank + 1] / acceptance[rank]
      heapq.heappush(heap, (score, (*path[:-1], rank + 1)))
  return from_paths(paths)


# EAGLE-1's sparse tree (mc_sim_7b_63 in its code): 25 drafted nodes, depth 5.
# fmt: off
EAGLE_SPARSE = from_parents([
  NO_PARENT, 0, 0, 0, 0, 1, 1, 1, 2, 2, 3, 3, 4, 5, 5, 5, 6, 6, 7, 7, 8, 13, 13,
  13, 21, 21,
])
# fmt: on
