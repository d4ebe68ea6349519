"""Exponential and Gumbel noise that races: see cells.py."""

from __future__ import annotations

import math
import operator
from fractions import Fraction

from tv_jax.certify.dice import exploring
from tv_jax.certify.dice.bounds import share
from tv_jax.certify.dice.cells import (
  SWAPPED,
  Cell,
  by_number,
  number_of,
  refuse,
)
from tv_jax.certify.dice.exploring import exact


class Noise(Cell):
  """A scaled exponential variable E, its inverse, or a logarithm of these.

  Attributes:
    index: Which variable of the run.
    uniform: That of which E is less the logarithm, if there is one.
  """

  __slots__ = (
    "_base",
    "_factor",
    "_log",
    "_scale",
    "_shift",
    "index",
    "uniform",
  )

  def __init__(
    self,
    index=None,
    uniform=None,
    base=1,
    scale=Fraction(1),
    log=False,
    factor=1,
    shift=Fraction(0),
  ):
    """Makes factor * (log(scale * E**base) + shift), or scale * E**base.

    Args:
      index: Which E; None: a new one.
      uniform: As the attribute.
      base: 1 or -1.
      scale: Not negative where there is a logarithm.
      log: Whether the logarithm is taken.
      factor: Before the logarithm, above 0.
      shift: Added to the logarithm.
    """
    way = exploring.way()
    if index is None:
      index, way.variables = way.variables, way.variables + 1
    self.index, self.uniform = index, uniform
    self._base, self._scale = base, scale
    self._log, self._factor = log, Fraction(factor)
    self._shift = shift

  def _with(self, **changes):
    fields = {
      "base": self._base,
      "scale": self._scale,
      "log": self._log,
      "factor": self._factor,
      "shift": self._shift,
    }
    return Noise(self.index, self.uniform, **fields | changes)

  def log(self) -> Noise:
    """Returns its logarithm."""
    if self._log or self._scale < 0:
      refuse("takes a logarithm that cannot be followed")
    return self._with(log=True)

  def __neg__(self):
    """Returns the negative."""
    if not self._log:
      return self._with(scale=-self._scale)
    if not self._scale:
      refuse("negates a logarithm of 0")
    return self._with(
      base=-self._base, scale=1 / self._scale, shift=-self._shift
    )

  def __add__(self, other):
    """Adds a number to a logarithm."""
    number = number_of(other, "adds random numbers", infinite=True)
    if number is NotImplemented:
      return number
    if not number:
      return self
    if not self._log:
      refuse("adds a number to noise")
    if number == -math.inf:
      return self._with(scale=Fraction(0))
    if isinstance(number, float):
      refuse("adds a number that is not finite to noise")
    return self._with(shift=self._shift + number / self._factor)

  __radd__ = __add__

  def __sub__(self, other):
    """Subtracts a number from a logarithm."""
    return by_number(
      other, "subtracts random numbers", lambda x: self + -x, infinite=True
    )

  def __rsub__(self, other):
    """Subtracts it from a number."""
    return -self + other

  def __mul__(self, other):
    """Scales it."""
    return by_number(
      other, "multiplies random numbers", self._scaled, infinite=True
    )

  __rmul__ = __mul__

  def __truediv__(self, other):
    """Scales it."""
    number = number_of(other, "divides random numbers")
    if number is NotImplemented:
      return number
    if not number:
      if self._log or self._scale <= 0:
        refuse("divides noise by 0")
      return math.inf  # E / 0 comes last in a race
    return self._scaled(1 / number)

  def __rtruediv__(self, other):
    """Divides a number by it."""
    if self._log or self._scale <= 0:
      refuse("divides by noise in a way that cannot be followed")
    number = number_of(other, "divides random numbers")
    if number is NotImplemented:
      return number
    return self._with(base=-self._base, scale=number / self._scale)

  def _scaled(self, number):
    if isinstance(number, float):
      refuse("multiplies noise by a number that is not finite")
    if self._log and number < 0:
      return (-self)._scaled(-number)
    if self._log:
      if not number:
        refuse("multiplies noise by 0")
      return self._with(factor=self._factor * number)
    return self._with(scale=self._scale * number)

  def _parts(self):
    parts = self._base, self._scale, self._log, self._factor, self._shift
    return self.index, *parts

  def _known(self):
    if self._scale:
      return None
    return -math.inf if self._log else Fraction(0)

  def _compare(self, how, other):
    if not isinstance(other, Noise):
      number = exact(other)
      if number is None:
        return NotImplemented
      if isinstance(number, float):  # an infinity, or NaN
        end = math.copysign(math.inf, self._scale)
        drawn = self.uniform if not self._log and self._base == 1 else None
        if drawn is not None and number == end and not drawn.raced:
          # The logarithm of a uniform of exactly 0 is there.
          zero = drawn.below("le", 0)
          return getattr(operator, how)(end if zero else 0.0, number)
        known = self._known()
        return getattr(operator, how)(0.0 if known is None else known, number)
      if not self._log and number == 0:
        return getattr(operator, how)(self._scale, 0)
      if self.uniform is None or self._log or self._base == -1:
        refuse("compares noise with a number")
      # s E < x, E = -log u: u > exp(-x / s), or < where s is below 0.
      if self._scale > 0:
        how = SWAPPED[how]
      share = math.exp(min(-float(number) / float(self._scale), 1.0))
      return self.uniform.below(how, Fraction(share))
    alike = (self._base, self._log) == (other._base, other._log)
    if not alike or (self._log and self._factor != other._factor):
      refuse("compares noises of two kinds")
    mine, theirs = self._scale, other._scale
    if self._shift != other._shift:
      theirs *= _exp(other._shift - self._shift)
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
    yes = other.index, self.index, 1 / ratio
    no = self.index, other.index, ratio
    chance = share(yes, way.bounds)
    first = way.take((chance, 1 - chance)) == 0
    way.bounds |= {yes if first else no}
    return first


def _exp(value: Fraction) -> Fraction:
  """Returns the exponential, also where a float has no place for it.

  That of more than 10,000 is that of 10,000. So far apart are a logit and one
  that is masked (-1e9, or the least float): the lesser one wins with a chance
  below all that is followed.
  """
  power = round(min(max(value, -10_000), 10_000) / math.log(2))
  rest = min(max(float(value) - power * math.log(2), -1), 1)
  return Fraction(math.exp(rest)) * Fraction(2) ** power
