"""The wide tree: what any tree that may turn out best is a part of."""

from __future__ import annotations

import heapq
from collections.abc import Iterable

import numpy as np

from tv_jax.tree import Tree, chain, check_size, from_paths
from tv_jax.verifiers import Verifier, undefined

# Children of a node at most.
MOST = 6

# Drafts that agree much, some and little, as Sequoia's model has them: the
# share of all that is accepted, and the share that each next sibling is left.
_DRAFTS = ((0.95, 0.2), (0.85, 0.4), (0.75, 0.6))


def wide(
  nodes: int, depth: int, verifier: Verifier, beside: Iterable[Tree] = ()
) -> Tree:
  """A tree that covers what may be best, whatever the draft.

  A node is in it if one of three drafts, a good, a middling and a poor one,
  would give it a place: the nodes of the largest worth to any of them.

  Args:
    nodes: How many it has, the root and those of `beside` aside.
    depth: Of it, likewise.
    verifier: One that is not for such a tree gets a chain.
    beside: Trees that are to be parts of it, too.
  """
  beside = [*beside]
  check_size(nodes + 1, "nodes")
  check_size(depth, "levels")
  rates = np.array(
    [[s * (1 - r) * r**j for j in range(MOST)] for s, r in _DRAFTS]
  )
  paths = {path for tree in beside for path in paths_of(tree)}
  heap, grown = [(-rates[:, 0].max(), (0,), rates[:, 0])], 0
  while heap and grown < nodes:
    _, path, worth = heapq.heappop(heap)
    paths.add(path)
    grown += 1
    *above, rank = path
    after = []
    if len(path) < depth:
      after.append(((*path, 0), worth * rates[:, 0]))
    if rank + 1 < MOST:
      younger = worth * rates[:, rank + 1] / rates[:, rank]
      after.append(((*above, rank + 1), younger))
    for own, worth in after:
      heapq.heappush(heap, (-worth.max(), own, worth))
  found = from_paths(paths)
  if undefined(verifier, found):
    return chain(max([depth, *(tree.max_depth for tree in beside)]))
  return found


def paths_of(tree: Tree) -> list[tuple[int, ...]]:
  """Of each drafted node, the ranks on the way to it."""
  paths = [()]
  for node in range(1, len(tree)):
    paths.append((*paths[tree.parent[node]], int(tree.rank[node])))
  return paths[1:]
