"""Draft trees: static, hashable, array-encoded topologies.

Axes: N nodes (root included), K children of a node at most.

Node 0 is the root, the last committed token. Nodes stand in level order;
siblings are adjacent and in the order in which they are drawn.
"""

from __future__ import annotations

import collections
import dataclasses
import functools
import heapq
import operator
import pathlib
import re
from collections.abc import Callable, Iterable, Sequence

import jax
import numpy as np

from tv_jax import names, reading
from tv_jax.reading import brief

ROOT = 0
NO_PARENT = -1
NO_CHILD = -1

# What `parse` reads with a colon, and is no module.
_FORMS = ("chain", "kary", "branching", "grown", "adaptive")

# Programs are unrolled over levels and over siblings, and a pass is over all
# nodes: larger trees would be compiled for hours. Real ones are far smaller.
MOST_NODES = 4096
MOST_LEVELS = 256
MOST_CHILDREN = 256


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True, kw_only=True)
class Topology:
  """A tree as int32 arrays, for programs that take the tree as an argument.

  Trees that share N and K share one compiled program; `Tree.topology` pads to
  a common size. A padded node is nobody's child and is never visited.
  """

  parent: jax.Array  # [N]
  rank: jax.Array  # [N]
  children: jax.Array  # [N, K]
  postorder: jax.Array  # [N]; then the root again
  depth: jax.Array  # [N]
  ancestors: jax.Array  # [N, N] bool
  paths: jax.Array  # [N, D + 1]; of `Tree.topology` [N, N], whatever its D


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
    """The number of nodes, the root included."""
    return len(self.parents)

  def __repr__(self) -> str:
    """Nodes, depth, and how many nodes each level has."""
    sizes = " ".join(str(len(level)) for level in self.levels)
    return f"Tree({len(self)} nodes, depth {self.max_depth}: {sizes})"

  @functools.cached_property
  def parent(self) -> np.ndarray:
    """[N] int32; `NO_PARENT` for the root."""
    return _frozen(self.parents)

  @functools.cached_property
  def depth(self) -> np.ndarray:
    """[N] int32: edges from the root."""
    depth = [0] * len(self)
    for node, parent in enumerate(self.parents[1:], start=1):
      depth[node] = depth[parent] + 1
    return _frozen(depth)

  @functools.cached_property
  def rank(self) -> np.ndarray:
    """[N] int32: how many siblings are drawn before this node."""
    seen: collections.Counter[int] = collections.Counter()
    rank = []
    for parent in self.parents:
      rank.append(seen[parent])
      seen[parent] += 1
    return _frozen(rank)

  @functools.cached_property
  def children(self) -> np.ndarray:
    """[N, K] int32, in draw order; `NO_CHILD` where there are fewer."""
    width = int(self.rank.max()) + 1 if len(self) > 1 else 0
    children = np.full((len(self), width), NO_CHILD)
    children[self.parent[1:], self.rank[1:]] = np.arange(1, len(self))
    return _frozen(children)

  @functools.cached_property
  def num_children(self) -> np.ndarray:
    """[N] int32."""
    return _frozen((self.children != NO_CHILD).sum(axis=1))

  @functools.cached_property
  def postorder(self) -> np.ndarray:
    """[N] int32: children before parents, siblings in draw order."""
    order, stack = [], [ROOT]
    while stack:  # node, last child, .. first child, ..: reversed below
      node = stack.pop()
      order.append(node)
      stack.extend(c for c in self.children[node] if c != NO_CHILD)
    return _frozen(order[::-1])

  @functools.cached_property
  def ancestors(self) -> np.ndarray:
    """[N, N] bool: whether the second is the first or above it."""
    ancestors = np.eye(len(self), dtype=bool)
    for node, parent in enumerate(self.parents[1:], start=1):
      ancestors[node] |= ancestors[parent]
    return _frozen(ancestors, bool)

  @functools.cached_property
  def paths(self) -> np.ndarray:
    """[N, D + 1] int32: the nodes from the root down to each; then `ROOT`."""
    paths = np.full((len(self), self.max_depth + 1), ROOT)
    for node, parent in enumerate(self.parents[1:], start=1):
      paths[node] = paths[parent]
      paths[node, self.depth[node]] = node
    return _frozen(paths)

  @functools.cached_property
  def inner(self) -> np.ndarray:
    """[M] int32: the nodes that have children, in level order."""
    return _frozen(np.flatnonzero(self.num_children))

  @functools.cached_property
  def family(self) -> np.ndarray:
    """[N] int32: the place of each node in `inner`; M for a leaf."""
    family = np.full(len(self), len(self.inner))
    family[self.inner] = np.arange(len(self.inner))
    return _frozen(family)

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
  def max_children(self) -> int:
    """K."""
    return self.children.shape[1]

  @property
  def max_depth(self) -> int:
    """Edges on the longest path from the root."""
    return int(self.depth[-1])

  @property
  def is_chain(self) -> bool:
    """Whether no node has more than one child."""
    return self.max_depth == len(self) - 1

  def topology(
    self, *, nodes: int | None = None, width: int | None = None
  ) -> Topology:
    """The tree as arrays, padded to `nodes` nodes of `width` children."""
    N, K = self.children.shape
    nodes, width = nodes or N, width or K
    if nodes < N or width < K:
      raise ValueError(
        f"a tree of {N} nodes with up to {K} children does not fit in"
        f" nodes={nodes}, width={width}; ask for at least its own size"
      )
    pad, more = (0, nodes - N), (0, nodes - 1 - self.max_depth)
    return Topology(
      parent=np.pad(self.parent, pad, constant_values=NO_PARENT),
      rank=np.pad(self.rank, pad),
      children=np.pad(
        self.children, (pad, (0, width - K)), constant_values=NO_CHILD
      ),
      postorder=np.pad(self.postorder, pad),
      depth=np.pad(self.depth, pad),
      ancestors=np.pad(self.ancestors, pad),
      paths=np.pad(self.paths, (pad, more), constant_values=ROOT),
    )


@jax.tree_util.register_static
@dataclasses.dataclass(frozen=True)
class Adaptive:
  """Trees that take their shape while they are drafted: another one each time.

  What is known beforehand are places, `widths[d]` of them at depth d + 1, of
  which some may stay empty: the fields below are those of a `Tree`, as far as
  they are known. The policy says which nodes have how many children.

  Attributes:
    widths: How many nodes each level below the root has at most.
    most: How many children a node has at most.
    policy: `(laws [n, V], worth [n], most) -> [n, most]`: what the next
      children of a level's nodes are worth, from the nodes' own draft laws and
      what they were worth themselves (1 at the root). The level below gets the
      children worth most, elders first, and none that is worth 0. It never sees
      the token of a child: a tree whose shape depends on that is not verified
      losslessly. None: `drafting.adaptive.by_confidence`.
  """

  widths: tuple[int, ...]
  most: int = 4
  policy: Callable | None = None

  def __post_init__(self):
    """Refuses places that could never be filled."""
    widths = tuple(map(operator.index, self.widths))
    object.__setattr__(self, "widths", widths)
    object.__setattr__(self, "most", operator.index(self.most))
    if not self.widths or min(self.widths) < 1 or self.most < 1:
      raise ValueError(
        f"adaptive tree of widths {brief(list(self.widths))}, {self.most}"
        " children at most: give one positive width for each level"
      )
    _check_levels(len(self.widths))
    _check_children(self.most)
    _check_nodes(len(self))
    above = 1
    for depth, width in enumerate(self.widths, start=1):
      if width > above * self.most:
        raise ValueError(
          f"adaptive tree: {width} nodes at depth {depth}, below {above} nodes"
          f" of {self.most} children at most"
        )
      above = width

  def __len__(self) -> int:
    """The number of places, the root included."""
    return 1 + sum(self.widths)

  def __repr__(self) -> str:
    """Places, depth, and how many places each level has."""
    sizes = " ".join(map(str, (1, *self.widths)))
    return f"Adaptive({len(self)} nodes, depth {self.max_depth}: {sizes})"

  @functools.cached_property
  def levels(self) -> tuple[range, ...]:
    """The places of each depth."""
    stops = np.cumsum([1, *self.widths]).tolist()
    return tuple(
      range(start, stop)
      for start, stop in zip([0, *stops[:-1]], stops, strict=True)
    )

  @functools.cached_property
  def depth(self) -> np.ndarray:
    """[N] int32."""
    return _frozen(np.repeat(np.arange(len(self.levels)), (1, *self.widths)))

  @functools.cached_property
  def inner(self) -> np.ndarray:
    """[M] int32: the places whose nodes may have children."""
    return _frozen(np.arange(self.levels[-1].start))

  @property
  def max_children(self) -> int:
    """K."""
    return self.most

  @property
  def max_depth(self) -> int:
    """Edges on the longest path from the root."""
    return len(self.widths)

  @property
  def is_chain(self) -> bool:
    """Whether no node has more than one child, ever."""
    return self.most == 1


def from_parents(parents: Iterable[int]) -> Tree:
  """The tree in which node i hangs below `parents[i]`; the root's is -1."""
  return Tree(tuple(operator.index(parent) for parent in parents))


def from_paths(paths: Iterable[Sequence[int]]) -> Tree:
  """The tree of these paths of ranks, as EAGLE and Medusa list them.

  Args:
    paths: For each drafted node, the ranks on the way to it: `[0, 2]` is the
      third child of the root's first child. Any order.
  """
  wanted = {tuple(operator.index(rank) for rank in path) for path in paths} - {
    ()
  }
  _check_nodes(len(wanted) + 1)
  _check_levels(max(map(len, wanted), default=0))
  for path in sorted(wanted):
    elder = (*path[:-1], path[-1] - 1)
    if path[-1] < 0 or (path[-1] > 0 and elder not in wanted):
      raise ValueError(
        f"node {list(path)} has no elder sibling {list(elder)}: ranks count"
        " from 0 without gaps"
      )
    if len(path) > 1 and path[:-1] not in wanted:
      raise ValueError(
        f"node {list(path)} has no parent: add the path {list(path[:-1])}"
      )
  ordered = [(), *sorted(wanted, key=lambda path: (len(path), path))]
  index = {path: node for node, path in enumerate(ordered)}
  return from_parents([NO_PARENT, *(index[path[:-1]] for path in ordered[1:])])


def branching(widths: Sequence[int]) -> Tree:
  """The tree whose nodes at depth d all have `widths[d]` children."""
  if not widths or min(widths) < 1:
    raise ValueError(
      f"branching {brief(list(widths))}: give one positive width per level"
    )
  _check_levels(len(widths))
  _check_children(max(widths))
  nodes = level = 1
  for width in widths:
    level *= width
    nodes += level
    if nodes > MOST_NODES:
      _check_nodes(nodes, "at least ")
  parents, level = [NO_PARENT], [ROOT]
  for width in widths:
    first = len(parents)
    parents += [node for node in level for _ in range(width)]
    level = range(first, len(parents))
  return from_parents(parents)


def kary(width: int, depth: int) -> Tree:
  """The full tree of `depth` levels below the root, `width` children each."""
  _check_levels(depth)
  return branching([width] * depth)


def chain(depth: int) -> Tree:
  """One path of `depth` drafted nodes."""
  return kary(1, depth)


def grown(
  nodes: int, *, acceptance: Sequence[float] = (0.8, 0.16, 0.032, 0.0064)
) -> Tree:
  """The tree of `nodes` nodes with the most tokens expected a cycle.

  Sequoia's model: the child of rank j is accepted with chance `acceptance[j]`,
  wherever it hangs. A node is then worth the product along its path, and the
  best tree is made of the nodes worth most. The default is the chance
  0.8 * 0.2^j of a draft that agrees 80% of the time.
  """
  sound = acceptance and all(0 < a < 1 for a in acceptance)
  if nodes < 2 or not sound or sum(acceptance) > 1:
    raise ValueError(
      f"grown tree of {nodes} nodes, acceptance {tuple(acceptance)}: needs at"
      " least 2 nodes and chances above 0 that sum to at most 1"
    )
  _check_nodes(nodes)
  acceptance = sorted(acceptance, reverse=True)
  paths: list[tuple[int, ...]] = []
  heap = [(-acceptance[0], (0,))]
  while len(paths) < nodes - 1:
    worth, path = heapq.heappop(heap)
    paths.append(path)
    heapq.heappush(heap, (worth * acceptance[0], (*path, 0)))
    rank = path[-1]
    if rank + 1 < len(acceptance):
      worth *= acceptance[rank + 1] / acceptance[rank]
      heapq.heappush(heap, (worth, (*path[:-1], rank + 1)))
  return from_paths(paths)


def placed(parent: np.ndarray) -> tuple[tuple[int, ...], np.ndarray]:
  """The parents of one row's tree of `Adaptive`, and its nodes' places [n].

  Args:
    parent: [N] of each place, `NO_PARENT` where nothing is.
  """
  there = np.asarray(parent) != NO_PARENT
  there[ROOT] = True
  number = np.cumsum(there) - 1
  places = np.flatnonzero(there)
  above = number[parent[places[1:]]]
  return (NO_PARENT, *above.tolist()), places


def family_sizes(tree: Tree | Adaptive) -> tuple[int, ...]:
  """How many children nodes may have, in rising order."""
  if isinstance(tree, Adaptive):
    return tuple(range(1, tree.most + 1))
  return tuple(np.unique(tree.num_children[tree.inner]).tolist())


def resolve(tree: Tree | Adaptive | str) -> Tree | Adaptive:
  """A tree, or what `parse` reads."""
  if isinstance(tree, Tree | Adaptive):
    return tree
  if isinstance(tree, str):
    return parse(tree)
  raise ValueError(f'tree={tree!r}: give a Tree or a text like "chain:5"')


def parse(text: str) -> Tree | Adaptive:
  """The tree that a short text names; see the error for the forms."""
  try:
    if text == "eagle":
      return EAGLE_SPARSE
    if match := re.fullmatch(r"chain:(\d+)", text):
      return chain(int(match[1]))
    if match := re.fullmatch(r"kary:(\d+)x(\d+)", text):
      return kary(int(match[1]), int(match[2]))
    if match := re.fullmatch(r"branching:(\d+(,\d+)*)", text):
      return branching([int(width) for width in match[1].split(",")])
    if match := re.fullmatch(r"grown:(\d+)", text):
      return grown(int(match[1]))
    if match := re.fullmatch(r"adaptive:(\d+(,\d+)*)", text):
      return Adaptive(tuple(int(width) for width in match[1].split(",")))
    if text.endswith(".json"):
      return _from_json(pathlib.Path(text))
  except ValueError as error:
    raise ValueError(f"tree {brief(text)}: {error}") from error
  if names.is_foreign(text) and text.partition(":")[0] not in _FORMS:
    return _imported(text)
  raise ValueError(
    f'tree {brief(text)}: write "chain:5", "kary:2x5", "eagle",'
    ' "branching:4,2,2,1", "grown:768", "adaptive:4,6,6,5,4", the name of a'
    " JSON file (a list of parents, or of paths of ranks), or"
    " package.module:name of a Tree"
  )


def _imported(text: str) -> Tree | Adaptive:
  """The tree that a module holds."""
  found = names.load(text, "tree")
  if not isinstance(found, Tree | Adaptive):
    raise ValueError(f"tree {text!r} is {found!r}: it should be a Tree")
  return found


def _from_json(path: pathlib.Path) -> Tree:
  content = reading.parse(reading.text(path), str(path))
  if not isinstance(content, list) or not content:
    raise ValueError("the file holds no list of parents or of paths")
  if all(type(entry) is int for entry in content):
    return from_parents(content)
  if all(
    isinstance(entry, list) and all(type(rank) is int for rank in entry)
    for entry in content
  ):
    return from_paths(content)
  raise ValueError("entries must be all integers, or all lists of integers")


def _frozen(values, dtype=np.int32) -> np.ndarray:
  array = np.array(values, dtype=dtype)
  array.setflags(write=False)
  return array


def _validate(parents: tuple[int, ...]) -> None:
  """Refuses what is not a tree in level order, naming a node."""
  if not parents or parents[ROOT] != NO_PARENT:
    raise ValueError(f"node 0 must be the root: its parent is {NO_PARENT}")
  if len(parents) == 1:
    raise ValueError("node 0 is the root and has no child: nothing is drafted")
  _check_nodes(len(parents))
  for node, parent in enumerate(parents[1:], start=1):
    if parent == NO_PARENT:
      raise ValueError(f"node {node} is a second root: give it a parent")
    if not 0 <= parent < len(parents):
      raise ValueError(
        f"node {node} has parent {brief(parent)}, which is not among the"
        f" {len(parents)} nodes"
      )
  _check_ways_up(parents)
  depth, seen = [0] * len(parents), {NO_PARENT}
  for node, parent in enumerate(parents[1:], start=1):
    if parent >= node:
      raise ValueError(
        f"node {node} stands before its parent {parent}: use level order"
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
  _check_levels(depth[-1])
  _check_children(max(collections.Counter(parents).values()))


def _check_ways_up(parents) -> None:
  """Refuses a node from which no way leads to the root."""
  sound = {ROOT}
  for node in range(1, len(parents)):
    way, above = {node}, parents[node]
    while above not in sound and above not in way:
      way.add(above)
      above = parents[above]
    if above not in sound:
      raise ValueError(f"node {node} leads into a cycle, not to the root")
    sound |= way


def _check_nodes(nodes: int, least: str = "") -> None:
  if nodes > MOST_NODES:
    raise ValueError(
      f"{least}{brief(nodes)} nodes: {MOST_NODES} are the most that a tree may"
      " have"
    )


def _check_levels(levels: int) -> None:
  if levels > MOST_LEVELS:
    raise ValueError(
      f"{brief(levels)} levels: {MOST_LEVELS} are the most that a tree may have"
    )


def _check_children(width: int) -> None:
  if width > MOST_CHILDREN:
    raise ValueError(
      f"{brief(width)} children of a node: {MOST_CHILDREN} are the most that it"
      " may have"
    )


# EAGLE-1's sparse tree (mc_sim_7b_63 in its code): 25 drafted nodes, depth 5.
# fmt: off
EAGLE_SPARSE = from_parents([
  NO_PARENT, 0, 0, 0, 0, 1, 1, 1, 2, 2, 3, 3, 4, 5, 5, 5, 6, 6, 7, 7, 8, 13, 13,
  13, 21, 21,
])
# fmt: on
