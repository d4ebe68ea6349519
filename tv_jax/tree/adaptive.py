"""Trees that take their shape while they are drafted.

Axes: N places, M places above the last level, n nodes of a level, K maximum
number of children, V vocabulary.
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable

import jax
import numpy as np

from tv_jax.edge.errors import UserError
from tv_jax.tree.static import NO_PARENT, ROOT, check_size, frozen


@jax.tree_util.register_static
@dataclasses.dataclass(frozen=True)
class Adaptive:
  """Trees that take their shape while they are drafted, in each row and cycle.

  Level d has `widths[d - 1]` places for nodes, and some may stay empty. A
  policy decides which nodes get children, and how many. This class has the
  properties of a `Tree` that do not depend on the shape.

  Attributes:
    widths: Maximum number of nodes of each level below the root.
    most: Maximum number of children of a node.
    policy: `(laws [n, V], score [n], most) -> [n, most]`: scores of the
      possible children of a level's nodes, in draw order. `laws` and `score`
      are the draft probabilities after these nodes, and their scores (1 for the
      root). The next level consists of the children with the highest scores. A
      child of score 0 is never drafted. The policy does not see the children's
      tokens: if the shape depended on them, verification would not be lossless.
      None for `drafting.by_confidence`.
  """

  widths: tuple[int, ...]
  most: int = 4
  policy: Callable | None = None

  def __post_init__(self):
    """Refuses levels with more places than their parents can have children."""
    object.__setattr__(self, "widths", (*self.widths,))
    if not self.widths or min(self.widths) < 1 or self.most < 1:
      raise UserError(
        f"adaptive tree of widths {list(self.widths)}, {self.most} children at"
        " most: give one positive width for each level"
      )
    check_size(1 + sum(self.widths))
    above = 1
    for depth, width in enumerate(self.widths, start=1):
      if width > above * self.most:
        raise UserError(
          f"adaptive tree: {width} nodes at depth {depth}, below {above} nodes"
          f" of {self.most} children at most"
        )
      above = width

  def __len__(self) -> int:
    """Returns the number of places, the root included."""
    return 1 + sum(self.widths)

  def __repr__(self) -> str:
    """Shows the numbers of places, of levels, and of places on each level."""
    sizes = " ".join(map(str, (1, *self.widths)))
    return f"Adaptive({len(self)} nodes, depth {self.max_depth}: {sizes})"

  @functools.cached_property
  def levels(self) -> tuple[range, ...]:
    """The places of each depth, as ranges."""
    stops = np.cumsum([1, *self.widths]).tolist()
    return tuple(
      range(start, stop)
      for start, stop in zip([0, *stops[:-1]], stops, strict=True)
    )

  @functools.cached_property
  def depth(self) -> np.ndarray:
    """[N] int32: depth of each place."""
    return frozen(np.repeat(np.arange(len(self.levels)), (1, *self.widths)))

  @functools.cached_property
  def inner(self) -> np.ndarray:
    """[M] int32: the places above the last level."""
    return frozen(np.arange(self.levels[-1].start))

  @property
  def family_sizes(self) -> tuple[int, ...]:
    """The possible numbers of children of a node, ascending."""
    return tuple(range(1, self.most + 1))

  @property
  def max_children(self) -> int:
    """K, the maximum number of children."""
    return self.most

  @property
  def max_depth(self) -> int:
    """D, the number of levels below the root."""
    return len(self.widths)

  @property
  def is_chain(self) -> bool:
    """Whether no node can have more than one child."""
    return self.most == 1


def drop_empty_places(parent: np.ndarray) -> tuple[tuple[int, ...], np.ndarray]:
  """Removes the empty places of a drafted tree.

  Args:
    parent: [N] Parent of each place; `NO_PARENT` for empty places.

  Returns:
    The parents of the remaining nodes, and their places [n].
  """
  taken = np.asarray(parent) != NO_PARENT
  taken[ROOT] = True
  number = np.cumsum(taken) - 1
  places = np.flatnonzero(taken)
  above = number[parent[places[1:]]]
  return (NO_PARENT, *above.tolist()), places
