"""Trees that take their shape while they are drafted.

Axes: n nodes of a level, K children of a node at most, V vocabulary.
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable

import jax
import numpy as np

from tv_jax.tree.static import NO_PARENT, ROOT, check_size, frozen


@jax.tree_util.register_static
@dataclasses.dataclass(frozen=True)
class Adaptive:
  """Trees that take their shape while they are drafted: another one each time.

  Only places are known beforehand: `widths[d]` of them at depth d + 1. Some may
  stay empty. The properties are those of a `Tree`, as far as they are known.
  The policy says which nodes have how many children.

  Attributes:
    widths: How many nodes each level below the root has at most.
    most: How many children a node has at most.
    policy: `(laws [n, V], worth [n], most) -> [n, most]`: what the next
      children of a level's nodes are worth, from the nodes' own draft laws and
      what they were worth themselves (1 at the root). The level below gets the
      children worth most, elders first, and none that is worth 0. The policy
      never sees the token of a child: if the shape depended on it, verification
      would not be lossless. None: `drafting.adaptive.by_confidence`.
  """

  widths: tuple[int, ...]
  most: int = 4
  policy: Callable | None = None

  def __post_init__(self):
    """Refuses places that could never be filled."""
    object.__setattr__(self, "widths", (*self.widths,))
    if not self.widths or min(self.widths) < 1 or self.most < 1:
      raise ValueError(
        f"adaptive tree of widths {list(self.widths)}, {self.most} children at"
        " most: give one positive width for each level"
      )
    check_size(1 + sum(self.widths))
    above = 1
    for depth, width in enumerate(self.widths, start=1):
      if width > above * self.most:
        raise ValueError(
          f"adaptive tree: {width} nodes at depth {depth}, below {above} nodes"
          f" of {self.most} children at most"
        )
      above = width

  def __len__(self) -> int:
    """Returns the number of places, the root included."""
    return 1 + sum(self.widths)

  def __repr__(self) -> str:
    """Shows places, depth, and how many places each level has."""
    sizes = " ".join(map(str, (1, *self.widths)))
    return f"Adaptive({len(self)} nodes, depth {self.max_depth}: {sizes})"

  @functools.cached_property
  def levels(self) -> tuple[range, ...]:
    """Returns the places of each depth."""
    stops = np.cumsum([1, *self.widths]).tolist()
    return tuple(
      range(start, stop)
      for start, stop in zip([0, *stops[:-1]], stops, strict=True)
    )

  @functools.cached_property
  def depth(self) -> np.ndarray:
    """[N] int32."""
    return frozen(np.repeat(np.arange(len(self.levels)), (1, *self.widths)))

  @functools.cached_property
  def inner(self) -> np.ndarray:
    """[M] int32: the places whose nodes may have children."""
    return frozen(np.arange(self.levels[-1].start))

  @property
  def family_sizes(self) -> tuple[int, ...]:
    """Returns how many children nodes may have, in rising order."""
    return tuple(range(1, self.most + 1))

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
    """Returns whether no node has more than one child, ever."""
    return self.most == 1


def placed(parent: np.ndarray) -> tuple[tuple[int, ...], np.ndarray]:
  """Returns the parents of one row's tree, and its nodes' places [n].

  Args:
    parent: [N] of each place, `NO_PARENT` where nothing is.
  """
  taken = np.asarray(parent) != NO_PARENT
  taken[ROOT] = True
  number = np.cumsum(taken) - 1
  places = np.flatnonzero(taken)
  above = number[parent[places[1:]]]
  return (NO_PARENT, *above.tolist()), places
