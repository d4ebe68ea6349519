"""What children are worth, as it was measured on a pair.

Axes: n nodes of a level, K children of a node at most, V vocabulary.
"""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Sequence

import jax
import jax.numpy as jnp

from tv_jax.edge import reading
from tv_jax.edge.reading import brief


@dataclasses.dataclass(frozen=True)
class Calibrated:
  """A policy of `Adaptive`: the parent's worth, times a chance from a table.

  What it looks at is how sure the draft is after the parent, the largest chance
  of its law there, and the child's rank; never a child's own token.

  Attributes:
    steps: Rising: where the next row of the table begins.
    chances: Row by row, one more than there are steps, of each rank: how often
      the accepted node is the child or below it, of the times that it is the
      parent or below it.
  """

  steps: tuple[float, ...]
  chances: tuple[tuple[float, ...], ...]

  def __post_init__(self):
    """Refuses what is no table; lists become tuples."""
    object.__setattr__(self, "steps", _numbers("steps", self.steps))
    if not isinstance(self.chances, Sequence) or isinstance(self.chances, str):
      raise ValueError(f"chances={brief(self.chances)}: give lists of numbers")
    rows = tuple(_numbers("chances", row) for row in self.chances)
    object.__setattr__(self, "chances", rows)
    if [*self.steps] != sorted({*self.steps}):
      raise ValueError(f"steps={brief(self.steps)}: give them rising")
    if len(rows) != len(self.steps) + 1:
      raise ValueError(
        f"{len(rows)} rows of chances for {len(self.steps)} steps: give one row"
        " more than there are steps"
      )
    if not rows[0] or {*map(len, rows)} != {len(rows[0])}:
      raise ValueError("give as many chances, 1 or more, in each row")

  @property
  def most(self) -> int:
    """How many children it knows of."""
    return len(self.chances[0])

  def __call__(self, laws: jax.Array, worth: jax.Array, most: int) -> jax.Array:
    """[n, K] what children are worth, nothing beyond those that it knows of.

    Args:
      laws: [n, V] the draft's, after each node of a level.
      worth: [n] what these are worth.
      most: K.
    """
    sure = jnp.max(laws, axis=-1)
    row = jnp.zeros(sure.shape, jnp.int32)
    for step in self.steps:
      row += (sure >= step).astype(row.dtype)
    known = jnp.asarray(self.chances, worth.dtype)[row, :most]
    beyond = max(0, most - self.most)
    return worth[:, None] * jnp.pad(known, ((0, 0), (0, beyond)))


def read(path: str | os.PathLike) -> Calibrated:
  """The policy that a file of `tv_jax.tune --calibrate` holds.

  Raises:
    ValueError: In one line, what is wrong with it.
  """
  found = reading.json_object(path)
  for name in ("steps", "chances"):
    if not isinstance(found.get(name), list):
      raise ValueError(f'{path} holds no list "{name}"')
  try:
    return Calibrated(found["steps"], found["chances"])
  except ValueError as error:
    raise ValueError(f"{path}: {error}") from None


def _numbers(name, values) -> tuple[float, ...]:
  """As a tuple: chances, all of them."""
  given = isinstance(values, Sequence) and not isinstance(values, str)
  if not given or not all(
    type(value) in (int, float) and 0 <= value <= 1 for value in values
  ):
    raise ValueError(f"{name}: {brief(values)}: give numbers from 0 to 1")
  return tuple(map(float, values))
