"""The largest or smallest of random numbers: which entries race, and how fast.

An entry wins with a probability that is proportional to its rate.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from fractions import Fraction
from typing import Any

import numpy as np

from tv_jax.certify.dice import choices
from tv_jax.certify.dice.cells import TINY, Cell, exp


def best(race: Callable, numbers: np.ndarray, axis: int, k: int = 1):
  """Returns the winners of k races along an axis, and their indices.

  Each race is without the winners of the races before it.
  """

  def ranked(row):
    left = [*range(len(row))]
    return [left.pop(race(row[left])) for _ in range(k)]

  places = np.apply_along_axis(ranked, axis, numbers)
  return np.take_along_axis(numbers, places, axis), places


def number(entry):
  """Returns an entry's value if it is certain, else the entry."""
  known = entry.known if type(entry) is Cell else None
  return entry if known is None else float(known)


def winner(row: Sequence) -> int:
  """Returns the index of the largest entry of a row."""
  entries: list[Any] = [*map(number, row)]
  noise = {i: x for i, x in enumerate(entries) if type(x) is Cell}
  rest = {i: x for i, x in enumerate(entries) if i not in noise}
  for i, x in rest.items():
    if x != x:
      return i
  rates = _rates(noise)
  kinds = {(x.form, x.a if x.form == "log E" else 0) for x in noise.values()}
  sources = {x.source for x in noise.values()}
  least = 0.0 if {form for form, _ in kinds} == {"1/E"} else -math.inf
  if (
    len(kinds) != 1
    or None in rates.values()
    or len(sources) < len(noise)
    or max(rest.values(), default=least) > least
  ):
    return int(np.argmax(np.array([*entries, None], object)[:-1]))
  return choices.race({i: x.source for i, x in noise.items()}, rates)


def loser(row: Sequence) -> int:
  """Returns the index of the smallest entry of a row."""
  return winner([-x for x in row])


def _rates(noise: dict[int, Any]) -> dict[int, Any]:
  """Returns the rate r of each entry: the largest has the least E / r."""
  # Only differences of logits count; the largest may be beyond a float's exp.
  logits = {
    i: -x.b / x.a for i, x in noise.items() if x.form == "log E" and x.a < 0
  }
  top = max(logits.values(), default=0)

  def rate(i: int, x) -> Fraction | None:
    if i in logits:
      return exp(logits[i] - top)
    if x.form == "1/E" and x.a > 0 and not x.b:
      return x.a
    if x.form == "E" and x.a < 0 and 0 <= x.b / x.a <= TINY:
      return -1 / x.pure().a
    return None

  return {i: rate(i, x) for i, x in noise.items()}
