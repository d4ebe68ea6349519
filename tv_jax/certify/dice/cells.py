"""Random numbers that know what is known of them.

A `Uniform` is in an interval, which a comparison with a number splits. A
`Noise` is an exponential variable, scaled, inverted or its logarithm: what the
races are made of that draw a token by the argmax of noise and logits.
Comparisons among them bound their ratios, and the chance of bounds is a
rational number (`measure`).
"""

from __future__ import annotations

import functools
import math
import operator
from fractions import Fraction
from typing import NoReturn

import numpy as np

from tv_jax.certify.dice import exploring
from tv_jax.certify.dice.exploring import LookedError, exact

_SWAPPED = {"lt": "gt", "gt": "lt", "le": "ge", "ge": "le"}
_REFUSED = {
  "__float__": "turns a random number into a float",
  "__int__": "turns a random number into an integer",
  "__index__": "uses a random number as an index",
  "__bool__": "asks whether a random number is 0",
  "__hash__": "keeps a random number in a set or a dictionary",
  "__round__": "rounds a random number",
  "__format__": "prints a random number",
  "__str__": "prints a random number",
  "__pow__": "takes a power of a random number",
  "__rpow__": "takes a power by a random number",
  "__mod__": "takes a remainder of a random number",
  "__floordiv__": "rounds a random number",
  "__abs__": "takes the absolute value of a random number",
  "__trunc__": "rounds a random number",
  "__floor__": "rounds a random number",
  "__ceil__": "rounds a random number",
  "exp": "takes the exponential of a random number",
  "sqrt": "takes the root of a random number",
  "conjugate": "multiplies random numbers",
}


def look(how: str) -> NoReturn:
  """Refuses, in the words of what the function does."""
  raise LookedError(
    f"{how}: a uniform can only be compared with numbers, and noise only race"
    " (argmax of noise and logits)"
  )


class Cell:
  """A random number: what it cannot do is refused by name."""

  is_random = True
  __slots__ = ()

  def __eq__(self, other):
    """Returns False: equal to a number it is with chance 0."""
    if self is other:
      return True
    if isinstance(other, Cell):
      look("compares two random numbers for equality")
    return False if exact(other) is not None else NotImplemented

  def __ne__(self, other):
    """Returns the contrary."""
    found = self.__eq__(other)
    return found if found is NotImplemented else not found

  def __lt__(self, other):
    """Compares."""
    return self._compare("lt", other)

  def __le__(self, other):
    """Compares."""
    return self._compare("le", other)

  def __gt__(self, other):
    """Compares."""
    return self._compare("gt", other)

  def __ge__(self, other):
    """Compares."""
    return self._compare("ge", other)

  def __repr__(self) -> str:
    """Returns what it is; prints of it are refused."""
    return f"a {type(self).__name__.lower()}"

  def _compare(self, how: str, other):
    raise NotImplementedError


def _refuse(name, how):
  def refused(self, *_):
    look(how)

  refused.__name__ = name
  refused.__doc__ = "Refuses."
  return refused


for _name, _how in _REFUSED.items():
  setattr(Cell, _name, _refuse(_name, _how))


class _Interval:
  """Where a uniform is: in [low, high), or in (low, high) if `open`."""

  __slots__ = ("high", "low", "noise", "open", "raced")

  def __init__(self):
    self.low, self.high, self.open = Fraction(0), Fraction(1), False
    self.noise: dict[Fraction, Noise] = {}  # -log of u, and of 1 - u
    self.raced = False  # whether that is what is compared

  @property
  def whole(self) -> bool:
    """Whether nothing is known of it."""
    return not self.low and self.high == 1 and not self.open


class Uniform(Cell):
  """A number a u + b with u uniform in [0, 1)."""

  __slots__ = ("_a", "_b", "_place")

  def __init__(self, place=None, a=Fraction(1), b=Fraction(0)):
    """Makes a new one, or a linear function of one that is there."""
    self._place = place or _Interval()
    self._a, self._b = a, b

  def _compare(self, how, other):
    if isinstance(other, Uniform):
      if other._place is not self._place:
        look("compares two random numbers")
      apart = Uniform(self._place, self._a - other._a, self._b - other._b)
      return apart.below(how, Fraction(0))
    number = exact(other)
    if number is None:
      return NotImplemented
    if isinstance(number, float):  # an infinity, or NaN
      return getattr(operator, how)(0.0, number)
    return self.below(how, number)

  def below(self, how: str, number: Fraction | int) -> bool:
    """Compares with a finite number, by the name of the comparison."""
    if self._a == 0:
      return getattr(operator, how)(self._b, number)
    if self._place.raced:
      look("compares a uniform whose logarithm was in a race")
    at = (number - self._b) / self._a
    if self._a < 0:
      how = _SWAPPED[how]
    if how in ("lt", "ge"):
      return self._less(at) == (how == "lt")
    return self._less(at, equal=True) == (how == "le")

  def _less(self, at: Fraction, equal: bool = False) -> bool:
    """Tells whether u < at, or u <= at; splits the interval if need be."""
    place = self._place
    if place.low == place.high:  # u is known: 0
      return place.low <= at if equal else place.low < at
    if at >= place.high:
      return True
    if at < place.low:
      return False
    if at == place.low:
      if not equal or at or place.open:
        return False
      # u <= 0: only a uniform of exactly 0.
      if exploring.way().take((Fraction(0), Fraction(1)), edge=0):
        place.open = True
        return False
      place.high = place.low
      return True
    share = (at - place.low) / (place.high - place.low)
    if exploring.way().take((share, 1 - share)) == 0:
      place.high = at
      return True
    place.low, place.open = at, False
    return False

  def _linear(self, a, b):
    return Uniform(self._place, self._a * a, self._b * a + b)

  def __add__(self, other):
    """Returns the sum with a number."""
    number = _number(other, "adds random numbers")
    return number if number is NotImplemented else self._linear(1, number)

  __radd__ = __add__

  def __sub__(self, other):
    """Returns the difference to a number."""
    number = _number(other, "subtracts random numbers")
    return number if number is NotImplemented else self._linear(1, -number)

  def __rsub__(self, other):
    """Returns the difference of a number to it."""
    number = _number(other, "subtracts random numbers")
    return number if number is NotImplemented else self._linear(-1, number)

  def __mul__(self, other):
    """Returns the product with a number."""
    number = _number(other, "multiplies random numbers")
    return number if number is NotImplemented else self._linear(number, 0)

  __rmul__ = __mul__

  def __truediv__(self, other):
    """Returns the quotient by a number."""
    number = _number(other, "divides random numbers")
    if number is NotImplemented:
      return number
    if not number:
      look("divides a random number by 0")
    return self._linear(1 / number, 0)

  def __rtruediv__(self, other):
    """Refuses."""
    look("divides by a random number")

  def __neg__(self):
    """Returns the negative."""
    return self._linear(-1, 0)

  def log(self) -> Noise:
    """Returns its logarithm, which is less an exponential variable."""
    if (self._a, self._b) not in ((1, 0), (-1, 1)):
      look("takes the logarithm of a uniform that was scaled")
    noise = self._place.noise
    if self._a not in noise:
      noise[self._a] = Noise(uniform=self)
    return -noise[self._a]

  def race(self) -> None:
    """Notes that its logarithm races; what was compared cannot."""
    if not self._place.whole or len(self._place.noise) > 1:
      look("races with the logarithm of a uniform that is used besides")
    self._place.raced = True

  def log1p(self) -> Noise:
    """Returns the logarithm of 1 + it."""
    return self._linear(1, 1).log()


class Noise(Cell):
  """A scaled exponential variable E, its inverse, or a logarithm of these.

  Attributes:
    index: Which variable of the run.
    uniform: That of which E is less the logarithm, if there is one.
  """

  __slots__ = ("_base", "_factor", "_log", "_scale", "index", "uniform")

  def __init__(
    self,
    index=None,
    uniform=None,
    base=1,
    scale=Fraction(1),
    log=False,
    factor=1,
  ):
    """Makes factor * log(scale * E**base), or without logarithm its inside.

    Args:
      index: Which E; None: a new one.
      uniform: As the attribute.
      base: 1 or -1.
      scale: Not negative where there is a logarithm.
      log: Whether the logarithm is taken.
      factor: Before the logarithm, above 0.
    """
    way = exploring.way()
    if index is None:
      index, way.variables = way.variables, way.variables + 1
    self.index, self.uniform = index, uniform
    self._base, self._scale = base, scale
    self._log, self._factor = log, Fraction(factor)

  def _with(self, **changes):
    fields = {
      "base": self._base,
      "scale": self._scale,
      "log": self._log,
      "factor": self._factor,
    }
    return Noise(self.index, self.uniform, **fields | changes)

  def log(self) -> Noise:
    """Returns its logarithm."""
    if self._log or self._scale < 0:
      look("takes a logarithm that cannot be followed")
    return self._with(log=True)

  def __neg__(self):
    """Returns the negative."""
    if not self._log:
      return self._with(scale=-self._scale)
    if not self._scale:
      look("negates a logarithm of 0")
    return self._with(base=-self._base, scale=1 / self._scale)

  def __add__(self, other):
    """Adds a number to a logarithm."""
    number = _number(other, "adds random numbers", infinite=True)
    if number is NotImplemented:
      return number
    if not number:
      return self
    if not self._log:
      look("adds a number to noise")
    value = float(number) / float(self._factor)
    if value == math.inf:
      look("adds infinity to noise")
    return self._with(scale=self._scale * Fraction(math.exp(value)))

  __radd__ = __add__

  def __sub__(self, other):
    """Subtracts a number from a logarithm."""
    return _by_number(other, "subtracts random numbers", lambda x: self + -x)

  def __rsub__(self, other):
    """Subtracts it from a number."""
    return -self + other

  def __mul__(self, other):
    """Scales it."""
    return _by_number(other, "multiplies random numbers", self._scaled)

  __rmul__ = __mul__

  def __truediv__(self, other):
    """Scales it."""
    number = _number(other, "divides random numbers")
    if number is NotImplemented:
      return number
    if not number:
      if self._log or self._scale <= 0:
        look("divides noise by 0")
      return math.inf  # E / 0 comes last in a race
    return self._scaled(1 / number)

  def __rtruediv__(self, other):
    """Divides a number by it."""
    if self._log or self._scale <= 0:
      look("divides by noise in a way that cannot be followed")
    number = _number(other, "divides random numbers")
    if number is NotImplemented:
      return number
    return self._with(base=-self._base, scale=number / self._scale)

  def _scaled(self, number):
    if self._log and number < 0:
      return (-self)._scaled(-number)
    if self._log:
      if not number:
        look("multiplies noise by 0")
      return self._with(factor=self._factor * number)
    return self._with(scale=self._scale * number)

  def _compare(self, how, other):
    if not isinstance(other, Noise):
      number = exact(other)
      if number is None:
        return NotImplemented
      if isinstance(number, float) and math.isinf(number):
        return getattr(operator, how)(0.0, number)
      if not self._log and number == 0:
        return getattr(operator, how)(self._scale, 0)
      if self.uniform is None or self._log or self._base == -1:
        look("compares noise with a number")
      # s E < x, E = -log u: u > exp(-x / s), or < where s is below 0.
      if self._scale > 0:
        how = _SWAPPED[how]
      share = math.exp(min(-float(number) / float(self._scale), 1.0))
      return self.uniform.below(how, Fraction(share))
    alike = (self._base, self._log) == (other._base, other._log)
    if not alike or (self._log and self._factor != other._factor):
      look("compares noises of two kinds")
    mine, theirs = self._scale, other._scale
    apart = mine == 0 or theirs == 0 or (mine < 0) != (theirs < 0)
    if apart or self.index == other.index:
      return getattr(operator, how)(mine, theirs)
    less = how in ("lt", "le")
    ratio = theirs / mine  # s E < t F: E / F < t / s
    if mine < 0:
      less = not less
    if self._base == -1:  # s / E < t / F: F / E < t / s, so E / F > s / t
      less, ratio = not less, 1 / ratio
    return self._faster(other, ratio) == less

  def _faster(self, other, ratio) -> bool:
    """Tells whether E < ratio F, by the chances of what is known already."""
    for one in (self.uniform, other.uniform):
      if one is not None:
        one.race()
    way = exploring.way()
    yes = way.bounds | {(other.index, self.index, 1 / ratio)}
    no = way.bounds | {(self.index, other.index, ratio)}
    share = chance(yes) / chance(way.bounds)
    if way.take((share, 1 - share)) == 0:
      way.bounds = yes
      return True
    way.bounds = no
    return False


def _number(value, how, infinite=False):
  if isinstance(value, Cell):
    look(how)
  number = exact(value)
  if number is None:
    return NotImplemented
  if isinstance(number, float) and not infinite:
    look("computes with a random number and one that is not finite")
  return number


def _by_number(value, how, function):
  number = _number(value, how, infinite=True)
  return number if number is NotImplemented else function(number)


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


def array(shape, make):
  """Returns an array of new random numbers; one of them if there is no shape.

  Args:
    shape: As NumPy's functions take it.
    make: Makes one.
  """
  if shape is None:
    return make()
  shape = tuple(np.atleast_1d(shape).tolist()) if shape != () else ()
  found = np.empty(shape, object)
  for at in np.ndindex(shape):
    found[at] = make()
  return found
