"""The chance of bounds on the ratios of exponential variables, exactly."""

from __future__ import annotations

import functools
from fractions import Fraction


def share(one: tuple, known: frozenset) -> Fraction:
  """Returns the chance of one more bound, given those that are known.

  Those count that are linked to it; the others are of independent noise.
  """
  linked, own = {*one[:2]}, frozenset()
  while True:
    more = frozenset(x for x in known if not linked.isdisjoint(x[:2]))
    if more == own:
      return chance(own | {one}) / chance(own)
    own = more
    linked.update(*(x[:2] for x in own))


@functools.lru_cache(maxsize=16384)
def chance(bounds: frozenset) -> Fraction:
  """Returns the chance of (i, j, r): E_i >= r E_j, for independent E."""
  used = sorted({i for one in bounds for i in one[:2]})
  return measure(tuple((i, Fraction(1)) for i in used), bounds)


@functools.lru_cache(maxsize=4096)
def measure(weights: tuple, bounds: frozenset) -> Fraction:
  """Integrates exp(-sum w_i x_i) over x >= 0 within bounds, exactly.

  One variable after the other is integrated from the largest of its lower
  bounds to the least of its upper ones, for each that this may be.

  Args:
    weights: (i, w_i) of each variable.
    bounds: (i, j, r) each: x_i >= r x_j.
  """
  if not weights:
    return Fraction(1)
  below, above = {}, {}
  for i, j, r in bounds:
    own = below.setdefault(i, {})
    own[j] = max(r, own.get(j, r))
    own = above.setdefault(j, {})
    own[i] = min(1 / r, own.get(i, 1 / r))

  def cases(one):
    i = one[0]
    return max(len(below.get(i, ())), 1) * max(len(above.get(i, ())), 1)

  k, w = min(weights, key=cases)
  rest = {i: x for i, x in weights if i != k}
  lows, highs = below.get(k, {}), above.get(k, {})
  fixed = [one for one in bounds if k not in one[:2]]
  total = Fraction(0)
  for low in lows or (None,):
    for high in highs or (None,):
      new = [*fixed]
      if low is not None:
        new += [(low, o, r / lows[low]) for o, r in lows.items() if o != low]
      if high is not None:
        new += [
          (o, high, highs[high] / s) for o, s in highs.items() if o != high
        ]
      if low is not None and high is not None:
        share = lows[low] / highs[high]
        if low == high and share > 1:
          continue
        if low != high:
          new.append((high, low, share))
      new = frozenset(new)
      for end, bound, sign in ((low, lows, 1), (high, highs, -1)):
        if end is None and sign < 0:
          continue
        own = dict(rest)
        if end is not None:
          own[end] += w * bound[end]
        total += sign * measure(tuple(sorted(own.items())), new) / w
  return total
