"""Random numbers that know what is known of them.

A `Uniform` is in an interval, which a comparison with a number splits. Its
logarithm is a `Noise` (noise.py): an exponential variable, scaled, inverted or
its logarithm, of which the races are made that draw a token by the argmax of
noise and logits. Comparisons among them bound their ratios, and the chance of
bounds is a rational number (bounds.py).
"""

from __future__ import annotations

import operator
from fractions import Fraction
from typing import TYPE_CHECKING, NoReturn

import numpy as np

from tv_jax.certify.dice import exploring
from tv_jax.certify.dice.exploring import RefusedError, exact

if TYPE_CHECKING:
  from tv_jax.certify.dice.noise import Noise

SWAPPED = {"lt": "gt", "gt": "lt", "le": "ge", "ge": "le"}
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


def refuse(how: str) -> NoReturn:
  """Refuses, in the words of what the function does."""
  raise RefusedError(
    f"{how}: a uniform can only be compared with numbers, and noise only race"
    " (argmax of noise and logits)"
  )


class Cell:
  """A random number: what it cannot do is refused by name."""

  is_random = True
  __slots__ = ()

  def __eq__(self, other):
    """Returns whether it is the same: else it is equal with chance 0."""
    known = self._known()
    if isinstance(other, Cell):
      if known is not None:
        return known == other._known()
      return type(self) is type(other) and self._parts() == other._parts()
    number = exact(other)
    return NotImplemented if number is None else known == number

  def __ne__(self, other):
    """Returns the contrary."""
    found = self.__eq__(other)
    return found if found is NotImplemented else not found

  def __lt__(self, other):
    """Compares."""
    return _as_numpy(self._compare("lt", other), other)

  def __le__(self, other):
    """Compares."""
    return _as_numpy(self._compare("le", other), other)

  def __gt__(self, other):
    """Compares."""
    return _as_numpy(self._compare("gt", other), other)

  def __ge__(self, other):
    """Compares."""
    return _as_numpy(self._compare("ge", other), other)

  def __repr__(self) -> str:
    """Returns what it is; prints of it are refused."""
    return f"a {type(self).__name__.lower()}"

  def _compare(self, how: str, other):
    raise NotImplementedError

  def _parts(self) -> tuple:
    """Returns what makes it what it is."""
    raise NotImplementedError

  def _known(self) -> Fraction | float | None:
    """Returns its value, if nothing of it is random (0 times noise)."""
    raise NotImplementedError

  def __copy__(self):
    """Returns itself: a copy is the same number."""
    return self

  def __deepcopy__(self, _):
    """Returns itself."""
    return self

  def __reduce_ex__(self, _):
    """Refuses."""
    refuse("saves a random number")


def _refuse(name, how):
  def refused(self, *_):
    refuse(how)

  refused.__name__ = name
  refused.__doc__ = "Refuses."
  return refused


for _name, _how in _REFUSED.items():
  setattr(Cell, _name, _refuse(_name, _how))


def _as_numpy(found, other):
  """Returns what a comparison found, as NumPy has it of NumPy's numbers."""
  numpy = isinstance(found, bool) and isinstance(other, np.generic)
  return np.bool_(found) if numpy else found


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

  def _parts(self):
    return id(self._place), self._a, self._b

  def _known(self):
    place = self._place
    if self._a == 0 or place.low == place.high:
      return self._a * place.low + self._b
    return None

  def _compare(self, how, other):
    if isinstance(other, Uniform):
      if other._place is not self._place:
        refuse("compares two random numbers")
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
      refuse("compares a uniform whose logarithm was in a race")
    at = (number - self._b) / self._a
    if self._a < 0:
      how = SWAPPED[how]
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
    return by_number(other, "adds random numbers", lambda x: self._linear(1, x))

  __radd__ = __add__

  def __sub__(self, other):
    """Returns the difference to a number."""
    return by_number(
      other, "subtracts random numbers", lambda x: self._linear(1, -x)
    )

  def __rsub__(self, other):
    """Returns the difference of a number to it."""
    return by_number(
      other, "subtracts random numbers", lambda x: self._linear(-1, x)
    )

  def __mul__(self, other):
    """Returns the product with a number."""
    return by_number(
      other, "multiplies random numbers", lambda x: self._linear(x, 0)
    )

  __rmul__ = __mul__

  def __truediv__(self, other):
    """Returns the quotient by a number."""
    number = number_of(other, "divides random numbers")
    if number is NotImplemented:
      return number
    if not number:
      refuse("divides a random number by 0")
    return self._linear(1 / number, 0)

  def __rtruediv__(self, other):
    """Refuses."""
    refuse("divides by a random number")

  def __neg__(self):
    """Returns the negative."""
    return self._linear(-1, 0)

  def log(self) -> Noise:
    """Returns its logarithm, which is less an exponential variable."""
    if (self._a, self._b) not in ((1, 0), (-1, 1)):
      refuse("takes the logarithm of a uniform that was scaled")
    from tv_jax.certify.dice.noise import Noise

    noise = self._place.noise
    if self._a not in noise:
      noise[self._a] = Noise(uniform=self)
    return -noise[self._a]

  @property
  def raced(self) -> bool:
    """Whether its logarithm was in a race."""
    return self._place.raced

  def race(self) -> None:
    """Notes that its logarithm races; what was compared cannot."""
    if not self._place.whole or len(self._place.noise) > 1:
      refuse("races with the logarithm of a uniform that is used besides")
    self._place.raced = True

  def log1p(self) -> Noise:
    """Returns the logarithm of 1 + it."""
    return self._linear(1, 1).log()


def number_of(value, how: str, infinite: bool = False):
  """Returns a number that is computed with; refuses, in these words, others.

  Returns:
    NotImplemented for what is no number: an array, say.
  """
  if isinstance(value, Cell):
    refuse(how)
  number = exact(value)
  if number is None:
    return NotImplemented
  if isinstance(number, float) and not infinite:
    refuse("computes with a random number and one that is not finite")
  return number


def by_number(value, how: str, function, infinite: bool = False):
  """Applies a function to what `number_of` returns, if it is a number."""
  number = number_of(value, how, infinite)
  return number if number is NotImplemented else function(number)


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
