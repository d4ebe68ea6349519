"""Exact probabilities of bounds on the ratios of exponential variables.

A bound (i, j, r) says E_i >= r E_j. The variables are independent, of rate 1.
"""

from __future__ import annotations

import functools
from collections.abc import Iterable
from fractions import Fraction


def linked(new: Iterable[tuple], known: frozenset) -> frozenset:
  """Returns the known bounds that shared variables link to new bounds.

  No other bound affects the probability of the new bounds.
  """
  variables = {i for bound in new for i in bound[:2]}
  found = frozenset()
  while True:
    more = frozenset(x for x in known if not variables.isdisjoint(x[:2]))
    if more == found:
      return found
    found = more
    variables.update(*(x[:2] for x in found))


@functools.lru_cache(maxsize=16384)
def chance(bounds: frozenset) -> Fraction:
  """Returns the probability that all bounds hold."""
  variables = sorted({i for bound in bounds for i in bound[:2]})
  return _integral(tuple((i, Fraction(1)) for i in variables), _tight(bounds))


def _tight(bounds: Iterable[tuple]) -> frozenset | None:
  """Keeps the largest bound of each pair; None if they contradict.

  Without it, the number of different integrals of two races with the same noise
  would double with each variable.
  """
  most: dict[tuple, Fraction] = {}
  for i, j, r in bounds:
    most[i, j] = max(r, most[i, j]) if (i, j) in most else r
  if any(r * most.get((j, i), 0) > 1 for (i, j), r in most.items()):
    return None
  return frozenset((*pair, r) for pair, r in most.items())


@functools.lru_cache(maxsize=4096)
def _integral(rates: tuple, bounds: frozenset | None) -> Fraction:
  """Integrates exp(-sum of rate_i x_i) over x >= 0 within bounds, exactly.

  Integrates one variable after the other, from its largest lower bound to its
  least upper bound. Each pair of bounds that can be these two gives a term.

  Args:
    rates: Pairs (i, rate_i), for each variable.
    bounds: Triples (i, j, r), for x_i >= r x_j; None if they contradict.
  """
  if bounds is None:
    return Fraction(0)
  if not rates:
    return Fraction(1)
  lower = {i: {} for i, _ in rates}  # x_i >= r x_j, as {i: {j: r}}
  upper = {i: {} for i, _ in rates}  # x_j <= s x_i, as {j: {i: s}}
  for i, j, r in bounds:
    lower[i][j] = r
    upper[j][i] = 1 / r
  k, rate = min(
    rates, key=lambda x: max(len(lower[x[0]]), 1) * max(len(upper[x[0]]), 1)
  )
  lows, highs = lower[k], upper[k]
  rest = {i: x for i, x in rates if i != k}
  others = [bound for bound in bounds if k not in bound[:2]]
  total = Fraction(0)
  for low in lows or (None,):
    for high in highs or (None,):
      new = [*others]
      if low is not None:  # let it be the largest lower bound
        new += [(low, j, r / lows[low]) for j, r in lows.items() if j != low]
      if high is not None:  # let it be the least upper bound
        new += [
          (j, high, highs[high] / s) for j, s in highs.items() if j != high
        ]
      if low is not None and high is not None:
        share = lows[low] / highs[high]
        if low == high and share > 1:
          continue
        if low != high:
          new.append((high, low, share))
      within = _tight(new)
      for end, factors, sign in ((low, lows, 1), (high, highs, -1)):
        if end is None and sign < 0:
          continue
        at_end = dict(rest)
        if end is not None:
          at_end[end] += rate * factors[end]
        at_end = tuple(sorted(at_end.items()))
        total += sign * _integral(at_end, within) / rate
  return total
