"""Draft trees: hashable, with their structure as arrays.

Node 0 is the root, the last committed token. Nodes are numbered in level order.
Siblings are adjacent, in draw order.

Axes: N nodes (root included), M nodes that have children, K maximum number of
children, D depth.
"""

from __future__ import annotations

import collections
import dataclasses
import functools
from typing import Any

import jax
import numpy as np

from tv_jax.io.errors import UserError

ROOT = 0
NO_PARENT = -1
NO_CHILD = -1

# Maximum number of nodes. Programs for larger trees take hours to compile.
MOST_NODES = 4096


@jax.tree_util.register_static
@dataclasses.dataclass(frozen=True)
class Tree:
  """A tree, known when a program is compiled.

  `parents` is the only field, so trees with equal parents are equal. All
  properties are derived from it. Arrays are read-only NumPy arrays.

  Attributes:
    parents: The parent of each node; `NO_PARENT` for the root.
  """

  parents: tuple[int, ...]

  def __post_init__(self):
    """Refuses a malformed tree."""
    _validate(self.parents)

  def __len__(self) -> int:
    """Returns the number of nodes, the root included."""
    return len(self.parents)

  def __repr__(self) -> str:
    """Shows the numbers of nodes, of levels, and of nodes on each level."""
    sizes = " ".join(str(len(level)) for level in self.levels)
    return f"Tree({len(self)} nodes, depth {self.max_depth}: {sizes})"

  @functools.cached_property
  def parent(self) -> np.ndarray:
    """[N] int32: the parent of each node; `NO_PARENT` for the root."""
    return frozen(self.parents)

  @functools.cached_property
  def depth(self) -> np.ndarray:
    """[N] int32: number of edges from the root."""
    depth = [0] * len(self)
    for node, parent in enumerate(self.parents[1:], start=1):
      depth[node] = depth[parent] + 1
    return frozen(depth)

  @functools.cached_property
  def rank(self) -> np.ndarray:
    """[N] int32: number of siblings that are drawn before the node."""
    seen: collections.Counter[int] = collections.Counter()
    rank = []
    for parent in self.parents:
      rank.append(seen[parent])
      seen[parent] += 1
    return frozen(rank)

  @functools.cached_property
  def children(self) -> np.ndarray:
    """[N, K] int32: children in draw order, padded with `NO_CHILD`."""
    width = int(self.rank.max()) + 1 if len(self) > 1 else 0
    children = np.full((len(self), width), NO_CHILD)
    children[self.parent[1:], self.rank[1:]] = np.arange(1, len(self))
    return frozen(children)

  @functools.cached_property
  def num_children(self) -> np.ndarray:
    """[N] int32: number of children."""
    return frozen((self.children != NO_CHILD).sum(axis=1))

  @functools.cached_property
  def postorder(self) -> np.ndarray:
    """[N] int32: children before parents, siblings in draw order."""
    order, stack = [], [ROOT]
    while stack:  # the reverse: parents first, last children first
      node = stack.pop()
      order.append(node)
      stack.extend(c for c in self.children[node] if c != NO_CHILD)
    return frozen(order[::-1])

  @functools.cached_property
  def ancestors(self) -> np.ndarray:
    """[N, N] bool: [i, j] is whether node j is node i or an ancestor of it."""
    ancestors = np.eye(len(self), dtype=bool)
    for node, parent in enumerate(self.parents[1:], start=1):
      ancestors[node] |= ancestors[parent]
    return frozen(ancestors, bool)

  @functools.cached_property
  def paths(self) -> np.ndarray:
    """[N, D + 1] int32: the path from the root to each node, padded with 0."""
    paths = np.full((len(self), self.max_depth + 1), ROOT)
    for node, parent in enumerate(self.parents[1:], start=1):
      paths[node] = paths[parent]
      paths[node, self.depth[node]] = node
    return frozen(paths)

  @functools.cached_property
  def inner(self) -> np.ndarray:
    """[M] int32: the nodes that have children."""
    return frozen(np.flatnonzero(self.num_children))

  @functools.cached_property
  def inner_index(self) -> np.ndarray:
    """[N] int32: index of each node in `inner`; 0 for leaves."""
    index = np.zeros(len(self), np.int32)
    index[self.inner] = np.arange(len(self.inner))
    return frozen(index)

  @functools.cached_property
  def levels(self) -> tuple[range, ...]:
    """The nodes of each depth, as ranges."""
    stops = np.searchsorted(self.depth, np.arange(self.max_depth + 1), "right")
    starts = [0, *stops[:-1]]
    return tuple(
      range(int(start), int(stop))
      for start, stop in zip(starts, stops, strict=True)
    )

  @property
  def family_sizes(self) -> tuple[int, ...]:
    """The distinct numbers of children of nodes with children, ascending."""
    return tuple(np.unique(self.num_children[self.inner]).tolist())

  @property
  def max_children(self) -> int:
    """K, the maximum number of children."""
    return self.children.shape[1]

  @property
  def max_depth(self) -> int:
    """D, the number of levels below the root."""
    return int(self.depth[-1])

  @property
  def is_chain(self) -> bool:
    """Whether no node has more than one child."""
    return self.max_depth == len(self) - 1


def to_all_nodes(tree: Tree, rows: Any) -> Any:
  """Expands rows [.., M, V] of nodes with children to all nodes [.., N, V].

  Leaves get arbitrary rows.
  """
  return rows[..., tree.inner_index, :]


def frozen(values, dtype: np.typing.DTypeLike = np.int32) -> np.ndarray:
  """Returns a read-only array."""
  array = np.array(values, dtype=dtype)
  array.setflags(write=False)
  return array


def check_size(nodes: int) -> None:
  """Refuses more than `MOST_NODES` nodes."""
  if nodes > MOST_NODES:
    count = f"{nodes}" if nodes < 10**15 else "more than 10^15"
    raise UserError(f"{count} nodes: a tree may have at most {MOST_NODES}")


def _validate(parents: tuple[int, ...]) -> None:
  """Refuses parents that are not a tree in level order."""
  if not parents or parents[ROOT] != NO_PARENT:
    raise UserError(f"node 0 must be the root: its parent is {NO_PARENT}")
  if len(parents) == 1:
    raise UserError("node 0 is the root and has no child: nothing is drafted")
  check_size(len(parents))
  depth, seen = [0] * len(parents), {NO_PARENT}
  for node, parent in enumerate(parents[1:], start=1):
    if not 0 <= parent < node:
      raise UserError(
        f"node {node} has parent {parent}: give a node that stands before it"
      )
    depth[node] = depth[parent] + 1
    if depth[node] < depth[node - 1]:
      raise UserError(
        f"node {node} at depth {depth[node]} follows a node at depth"
        f" {depth[node - 1]}: use level order"
      )
    if parent != parents[node - 1] and parent in seen:
      raise UserError(
        f"node {node} stands apart from its siblings below {parent}: make"
        " siblings adjacent"
      )
    seen.add(parent)
