"""Draft trees: static, hashable, array-encoded topologies.

Axes: N nodes (root included), K children of a node at most.

Node 0 is the root, the last committed token. Nodes stand in level order;
siblings are adjacent and in the order in which they are drawn.
"""

from __future__ import annotations

import collections
import dataclasses
import functools

import jax
import numpy as np

ROOT = 0
NO_PARENT = -1
NO_CHILD = -1

# Larger trees would be compiled for hours. Real ones are far smaller.
MOST_NODES = 4096

Array = jax.Array | np.ndarray


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True, kw_only=True)
class Topology:
  """A tree as int32 arrays, for programs that take the tree as an argument.

  A padded node is nobody's child and is never visited.
  """

  parent: Array  # [N]
  rank: Array  # [N]
  children: Array  # [N, K]
  postorder: Array  # [N]; then the root again
  depth: Array  # [N]
  ancestors: Array  # [N, N] bool
  paths: Array  # [N, D + 1]


@jax.tree_util.register_static
@dataclasses.dataclass(frozen=True)
class Tree:
  """A tree's topology, known when a program is traced.

  Attributes:
    parents: The parent of each node; `NO_PARENT` for the root. The one field:
      trees are equal and hash alike when their parents do. Everything else
      is derived from it, as read-only NumPy arrays.
  """

  parents: tuple[int, ...]

  def __post_init__(self):
    """Refuses a malformed tree."""
    _validate(self.parents)

  def __len__(self) -> int:
    """Returns the number of nodes, the root included."""
    return len(self.parents)

  def __repr__(self) -> str:
    """Shows nodes, depth, and how many nodes each level has."""
    sizes = " ".join(str(len(level)) for level in self.levels)
    return f"Tree({len(self)} nodes, depth {self.max_depth}: {sizes})"

  @functools.cached_property
  def parent(self) -> np.ndarray:
    """[N] int32; `NO_PARENT` for the root."""
    return frozen(self.parents)

  @functools.cached_property
  def depth(self) -> np.ndarray:
    """[N] int32: edges from the root."""
    depth = [0] * len(self)
    for node, parent in enumerate(self.parents[1:], start=1):
      depth[node] = depth[parent] + 1
    return frozen(depth)

  @functools.cached_property
  def rank(self) -> np.ndarray:
    """[N] int32: how many siblings are drawn before this node."""
    seen: collections.Counter[int] = collections.Counter()
    rank = []
    for parent in self.parents:
      rank.append(seen[parent])
      seen[parent] += 1
    return frozen(rank)

  @functools.cached_property
  def children(self) -> np.ndarray:
    """[N, K] int32, in draw order; `NO_CHILD` where there are fewer."""
    width = int(self.rank.max()) + 1 if len(self) > 1 else 0
    children = np.full((len(self), width), NO_CHILD)
    children[self.parent[1:], self.rank[1:]] = np.arange(1, len(self))
    return frozen(children)

  @functools.cached_property
  def num_children(self) -> np.ndarray:
    """[N] int32."""
    return frozen((self.children != NO_CHILD).sum(axis=1))

  @functools.cached_property
  def postorder(self) -> np.ndarray:
    """[N] int32: children before parents, siblings in draw order."""
    order, stack = [], [ROOT]
    while stack:  # node, last child, .. first child, ..: reversed below
      node = stack.pop()
      order.append(node)
      stack.extend(c for c in self.children[node] if c != NO_CHILD)
    return frozen(order[::-1])

  @functools.cached_property
  def ancestors(self) -> np.ndarray:
    """[N, N] bool: whether the second is the first or above it."""
    ancestors = np.eye(len(self), dtype=bool)
    for node, parent in enumerate(self.parents[1:], start=1):
      ancestors[node] |= ancestors[parent]
    return frozen(ancestors, bool)

  @functools.cached_property
  def paths(self) -> np.ndarray:
    """[N, D + 1] int32: the nodes from the root down to each; then `ROOT`."""
    paths = np.full((len(self), self.max_depth + 1), ROOT)
    for node, parent in enumerate(self.parents[1:], start=1):
      paths[node] = paths[parent]
      paths[node, self.depth[node]] = node
    return frozen(paths)

  @functools.cached_property
  def inner(self) -> np.ndarray:
    """[M] int32: the nodes that have children, in level order."""
    return frozen(np.flatnonzero(self.num_children))

  @functools.cached_property
  def levels(self) -> tuple[range, ...]:
    """The nodes of each depth: ranges, since nodes stand in level order."""
    stops = np.searchsorted(self.depth, np.arange(self.max_depth + 1), "right")
    starts = [0, *stops[:-1]]
    return tuple(
      range(int(start), int(stop))
      for start, stop in zip(starts, stops, strict=True)
    )

  @property
  def family_sizes(self) -> tuple[int, ...]:
    """Returns how many children nodes have, in rising order."""
    return tuple(np.unique(self.num_children[self.inner]).tolist())

  @property
  def max_children(self) -> int:
    """K."""
    return self.children.shape[1]

  @property
  def max_depth(self) -> int:
    """Edges on the longest path from the root."""
    return int(self.depth[-1])

  @property
  def is_chain(self) -> bool:
    """Returns whether no node has more than one child."""
    return self.max_depth == len(self) - 1


def frozen(values, dtype: np.typing.DTypeLike = np.int32) -> np.ndarray:
  """Returns a read-only array."""
  array = np.array(values, dtype=dtype)
  array.setflags(write=False)
  return array


def check_size(nodes: int) -> None:
  """Refuses trees of more than `MOST_NODES`."""
  if nodes > MOST_NODES:
    raise ValueError(
      f"{nodes} nodes: {MOST_NODES} are the most that a tree may have"
    )


def _validate(parents: tuple[int, ...]) -> None:
  """Refuses what is not a tree in level order, naming a node."""
  if not parents or parents[ROOT] != NO_PARENT:
    raise ValueError(f"node 0 must be the root: its parent is {NO_PARENT}")
  if len(parents) == 1:
    raise ValueError("node 0 is the root and has no child: nothing is drafted")
  check_size(len(parents))
  depth, seen = [0] * len(parents), {NO_PARENT}
  for node, parent in enumerate(parents[1:], start=1):
    if not 0 <= parent < node:
      raise ValueError(
        f"node {node} has parent {parent}: give a node that stands before it"
      )
    depth[node] = depth[parent] + 1
    if depth[node] < depth[node - 1]:
      raise ValueError(
        f"node {node} at depth {depth[node]} follows a node at depth"
        f" {depth[node - 1]}: use level order"
      )
    if parent != parents[node - 1] and parent in seen:
      raise ValueError(
        f"node {node} stands apart from its siblings below {parent}: make"
        " siblings adjacent"
      )
    seen.add(parent)
