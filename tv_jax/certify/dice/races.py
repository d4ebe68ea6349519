"""Races: the largest or smallest of random numbers.

Entries of a race are a single choice among the entries. Comparisons of pairs
would need a path for each sequence of leaders.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from fractions import Fraction
from typing import Any

import numpy as np

from tv_jax.certify.dice.cells import TINY, Cell, Exponential, exp
from tv_jax.certify.dice.paths import current


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
  return _won({i: x.source for i, x in noise.items()}, rates)


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


def _won(variables: dict[int, Exponential], rates: dict[int, Fraction]) -> int:
  """Returns the key of the winner, which has the least E / rate."""
  path, total = current(), sum(rates.values())
  for variable in variables.values():
    variable.enter()
  index = {i: variable.index for i, variable in variables.items()}
  known = {i for bound in path.bounds for i in bound[:2]}
  linked = not known.isdisjoint(index.values())

  def bounds_of(i: int) -> list[tuple]:
    others = [j for j in rates if j != i]
    return [(index[j], index[i], rates[j] / rates[i]) for j in others]

  if linked:
    weights = [path.chance(bounds_of(i)) for i in rates]
  else:
    weights = [rate / total for rate in rates.values()]
  first = [*rates][path.take(weights) if len(weights) > 1 else 0]
  path.bounds |= {*bounds_of(first)}
  return first
