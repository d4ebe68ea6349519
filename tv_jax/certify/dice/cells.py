"""Random numbers that remember the results of comparisons.

A `Cell` is a x + b with numbers a and b. Its x is a uniform in [0, 1), an
exponential variable E, 1 / E, or log E. Comparing a uniform with a number
splits the interval of the uniform. Comparing two exponential variables bounds
their ratio. An argmax of noise and logits draws a token by such bounds.

A program takes a cell for a float, and the cell raises what a float raises. Any
other use is refused, which ends the run even if the program catches it.
"""

from __future__ import annotations

import functools
import math
import operator
import sys
from collections.abc import Callable
from fractions import Fraction
from typing import Any, cast

import numpy as np

from tv_jax.certify.dice.choices import Exponential, Uniform, blur
from tv_jax.certify.dice.paths import (
  exact,
  is_running,
  is_users,
  refuse,
  refuse_methods,
)

_0 = Fraction(0)
# Programs add smaller numbers to noise to keep it from 0; see `_blur`.
TINY = Fraction(1, 10**6)
# jax.random adds the least positive number to a uniform before a logarithm.
_LEAST = 2.0**-100
# Half precision is refused: its uniforms are multiples of 2**-8.
FINE = (np.dtype(np.float32), np.dtype(np.float64))
SWAPPED = {"lt": "gt", "gt": "lt", "le": "ge", "ge": "le"}
_REFUSED = ("__float__", "__int__", "__index__", "__bool__", "__hash__")
_REFUSED += ("__str__", "__format__", "__pow__", "__rpow__", "__mod__")
_REFUSED += ("__rmod__", "__abs__", "__round__", "__floordiv__", "__divmod__")
_REFUSED += ("__rfloordiv__", "__rdivmod__", "__trunc__", "__floor__")
_REFUSED += ("__ceil__", "__complex__", "__reduce_ex__")


class Cell:
  """A random number a x + b; `form` gives x as a function of `source`."""

  __slots__ = ("a", "b", "form", "kind", "source")

  def __init__(
    self,
    form: str,
    source: Any,
    a: Any = Fraction(1),
    b: Any = _0,
    kind: type = np.float64,
  ):
    """Makes a x + b.

    Args:
      form: "u", "E", "1/E" or "log E".
      source: A `Uniform` or an `Exponential`.
      a: The factor.
      b: The summand; minus infinity masks a logit.
      kind: The type that the program sees, float or np.float64.
    """
    self.form, self.a, self.b, self.kind = form, a, b, kind
    self.source: Any = source

  @property
  def __class__(self) -> type:
    """The type that `isinstance` sees."""
    if sys._getframe(1).f_globals.get("__name__") == "json.encoder":
      refuse("writes a random number as JSON")
    return self.kind

  @property
  def __jax_array__(self):
    """Refuses; JAX looks for this attribute."""
    return refuse("gives a random number of Python or NumPy to JAX")

  def __getattr__(self, name: str):
    """Returns an attribute of a float, if it is followed."""
    method = isinstance(getattr(np, name, None), np.ufunc)  # NumPy calls these
    if name.startswith("__") or not (method or hasattr(self.kind, name)):
      kind = self.kind.__name__
      raise AttributeError(f"'{kind}' object has no attribute '{name}'")
    if name in _ATTRIBUTES:
      return _ATTRIBUTES[name](self)
    return refuse(f"takes {name}() of a random number")

  def __repr__(self) -> str:
    """Describes the number in error messages; a program may not print it."""
    if is_running():
      refuse("prints a random number")
    return "a uniform" if self.form == "u" else "a noise"

  @property
  def known(self) -> Fraction | float | None:
    """The value if it is certain, else None."""
    if self.form == "u" and self.source.low == self.source.high:
      return self.b  # u is exactly 0
    return self.b if not self.a or isinstance(self.b, float) else None

  def __eq__(self, other):
    """Returns whether both are the same number; others differ almost surely."""
    if isinstance(other, Cell):
      if self.known is not None:
        return self.known == other.known
      mine, theirs = ((x.form, x.source, x.a, x.b) for x in (self, other))
      return mine == theirs
    number = _compared(other)
    if number is None:
      return _unknown(operator.eq, other)
    return self._answer(self._compare_number("eq", number), other)

  def __ne__(self, other):
    """Returns the negation of `==`."""
    same = self.__eq__(other)
    return same if same is NotImplemented else same ^ True

  def _ordered(self, order: str, other):
    if isinstance(other, Cell):
      if other.known is None:
        return self._compare(order, other)
      other = other.known
    number = _compared(other)
    if number is None:
      return _unknown(getattr(operator, order), other)
    return self._answer(self._compare_number(order, number), other)

  def _answer(self, answer: bool, other):
    """Returns the answer to a comparison in the type that floats return."""
    if type(other).__module__.startswith("torch"):
      return other.isnan().fill_(answer)  # in the shape of `other`
    numpy = self.kind is not float or isinstance(other, np.generic)
    return np.bool_(answer) if numpy else answer

  def _compare_number(self, order: str, number) -> bool:
    compare = getattr(operator, order)
    if self.known is not None:
      return compare(self.known, number)
    if order == "eq":
      # A uniform equals 0 on a path of weight 0, and never another number.
      at_0 = self.form == "u" and number == self.b and not self.source.raced
      return at_0 and self.source.less(_0, or_equal=True)
    # The uniform u of E = -log u; for u = 0, E is infinite.
    drawn = self.source.uniform if self.form == "E" else None
    if number != number or (math.isinf(number) and drawn is None):
      return compare(0.0, number)  # as any finite number compares
    if self.form in ("E", "1/E") and number == self.b:
      return compare(self.a, 0)  # E > 0
    bound = (number - self.b) / self.a  # a x + b < number if x < bound
    if self.a < 0:
      order = SWAPPED[order]
    if self.form != "u" and drawn is None:
      if self.form != "E" or not 0 < bound <= TINY:
        refuse("compares noise with a number")
      blur(bound)
      return order in ("gt", "ge")
    if drawn is not None:  # E < bound if u > exp(-bound)
      share = Fraction(math.exp(min(-float(bound), 1.0)))
      return drawn._compare_number(SWAPPED[order], share)
    or_equal = order in ("le", "gt")
    return self.source.less(bound, or_equal) == (order in ("lt", "le"))

  def _compare(self, order: str, other: Cell) -> bool:
    """Compares with another random number."""
    if self.known is not None:
      return other._compare_number(SWAPPED[order], self.known)
    if self.form != other.form:
      refuse("compares random numbers of two kinds")
    compare, same = getattr(operator, order), self.source is other.source
    if self.form == "u":
      if not same:
        refuse("compares two random numbers")
      apart = Cell("u", self.source, self.a - other.a, self.b - other.b)
      return apart._compare_number(order, Fraction(0))
    less = order in ("lt", "le")
    if self.form == "log E":  # a log E + b < a log F + b'
      if self.a != other.a:
        refuse("compares noises of two scales")
      if same:
        return compare(self.b, other.b)
      ratio = exp((other.b - self.b) / self.a)  # E < ratio F if a > 0
    else:  # a E < a' F
      if self.form == "E" or self.b != other.b:
        equal = 0 if self.b == other.b else None  # equal summands cancel
        self.pure(equal)
        other.pure(equal)
      if same or (self.a < 0) != (other.a < 0):
        return compare(self.a, other.a)
      ratio = other.a / self.a
      if self.form == "1/E":  # a / E < a' / F: E / F > a / a'
        less, ratio = not less, 1 / ratio
    if self.a < 0:
      less = not less
    return self.source.less(other.source, ratio) == less

  def pure(self, shift: Fraction | int | None = None) -> Cell:
    """Returns noise without a tiny number that was added to it.

    Args:
      shift: The number added to E. None: b / a, as a E + b = a (E + b / a).
    """
    added: Any = self.b / self.a if shift is None else shift
    if self.form != "E" or not 0 <= added <= TINY:
      refuse("adds a number to noise, and compares it with other noise")
    if self.source.shift is None:
      blur(added)
      self.source.shift = added
    if self.source.shift != added:
      refuse("adds two different numbers to one noise")
    return Cell("E", self.source, self.a)

  def clamp(self, low=None, high=None):
    """Clamps to [low, high]; refuses if this changes more than rounding."""
    ends: list[Any] = [
      None if x is None else _number(x, max, "clamps by", True)
      for x in (low, high)
    ]
    if self.known is not None:
      return _clamped(self.known, *ends)
    if self == self.b:  # u is exactly 0
      return self.clamp(low, high)
    if self.form not in ("u", "E") or (self.form == "E" and self.a < 0):
      refuse("clamps noise")
    first, last = sorted((self.b, self.a + self.b))
    cut = [_0 if ends[0] is None else ends[0] - first]
    cut += [_0 if ends[1] is None else last - ends[1]]
    share: Any = sum(max(x, _0) for x in cut) / abs(self.a)
    if (self.form == "E" and ends[1] is not None) or share > TINY:
      refuse("clamps a random number by more than rounding (compare it)")
    blur(share)
    return self

  def _linear(self, a, b, other=None) -> Cell:
    kind = type(other) if isinstance(other, np.generic) else self.kind
    kind = float if kind is float else np.float64
    return Cell(self.form, self.source, self.a * a, self.b * a + b, kind)

  def as_kind(self, kind: type) -> Cell:
    """Returns the number as a float of Python or of NumPy."""
    return Cell(self.form, self.source, self.a, self.b, kind)

  def __add__(self, other):
    """Returns the sum with a number; minus infinity masks a logit."""
    number = _number(other, operator.add, "adds", self.form == "log E")
    if number is NotImplemented:
      return number
    return self._linear(1, number, other)

  __radd__ = __add__

  def __sub__(self, other):
    """Subtracts a number."""
    number = _number(other, operator.sub, "subtracts", self.form == "log E")
    if number is NotImplemented:
      return number
    return self._linear(1, -number, other)

  def __rsub__(self, other):
    """Subtracts the random number from a number."""
    return -self + other

  def __neg__(self):
    """Returns the negative."""
    return self._linear(-1, 0)

  def __pos__(self):
    """Returns the number."""
    return self

  def __mul__(self, other):
    """Returns the product with a number."""
    number = _number(other, operator.mul, "multiplies")
    if number is NotImplemented:
      return number
    return self._linear(number, 0, other)

  __rmul__ = __mul__

  def __truediv__(self, other):
    """Returns the quotient by a number."""
    number = _number(other, operator.truediv, "divides")
    if number is NotImplemented:
      return number
    if number:
      return self._linear(1 / number, 0, other)
    if self.kind is float and not isinstance(other, np.generic):
      raise ZeroDivisionError("float division by zero")
    infinite, noise = math.copysign(math.inf, other), cast(Any, self)
    if noise > 0:
      return np.float64(infinite)  # E / 0 comes last in a race
    return np.float64(-infinite if noise < 0 else np.nan)

  def __rtruediv__(self, other):
    """Divides a number by noise."""
    number = _number(other, operator.truediv, "divides")
    if number is NotImplemented:
      return number
    if self.form not in ("E", "1/E") or self.a <= 0:
      refuse("divides by a random number")
    noise = self.pure() if self.form == "E" or self.b else self
    inverse = "1/E" if self.form == "E" else "E"
    return Cell(inverse, noise.source, number / noise.a)

  def log(self) -> Cell:
    """Returns the logarithm; for a uniform it is -E, with E exponential."""
    if self.form == "u":
      drawn = self
      if self.a == 1 and 0 < self.b < _LEAST:
        drawn = Cell("u", self.source)
      low, high = sorted((drawn.b, drawn.a + drawn.b))
      if abs(low) + abs(high - 1) > TINY:
        refuse("takes the logarithm of a uniform that was scaled")
      sign, logs = Fraction(1 if self.a > 0 else -1), self.source.logs
      if sign not in logs:
        logs[sign] = Cell("E", Exponential(uniform=drawn))
      if logs[sign].source.uniform != drawn:
        refuse("takes two logarithms of one uniform")
      return -logs[sign]
    if self.form == "log E" or self.a < 0:
      refuse("takes a logarithm that cannot be followed")
    if self.b or (self.form == "E" and self.a):
      self.pure()
    b = -math.inf
    if self.a:
      b = math.log(self.a.numerator) - math.log(self.a.denominator)
      b = Fraction(b)
    sign = Fraction(1 if self.form == "E" else -1)
    return Cell("log E", self.source, sign, b)


def _clamped(x, low, high):
  if isinstance(x, Cell):
    return x.clamp(low, high)
  x = x if low is None else max(x, low)
  return x if high is None else min(x, high)


# Clamps random numbers and others, or arrays of them.
clamped: Any = np.frompyfunc(_clamped, 3, 1)


def _compared(other) -> Fraction | float | None:
  """Returns the operand of a comparison as a number; None for other types."""
  dtype = str(getattr(other, "dtype", "")).removeprefix("torch.")
  if dtype in ("float16", "bfloat16") and exact(other) is not None:
    refuse(f"compares a random number with one of {dtype}, which rounds it")
  return exact(other)


def _unknown(operate: Callable, other) -> Any:
  """Returns NotImplemented if a float does so, or leaves it to `other`."""
  module = sys.modules.get(type(other).__module__)
  users = is_users(getattr(module, "__file__", None))
  if not isinstance(other, np.ndarray) and not users:
    try:
      known = operate(0.5, other)
    except TypeError:
      return NotImplemented
    if operate is not operator.eq or not isinstance(known, bool):
      refuse(f"computes with a random number and a {type(other).__name__}")
  return NotImplemented


for _name in SWAPPED:
  _method = functools.partialmethod(Cell._ordered, _name)
  setattr(Cell, f"__{_name}__", _method)
refuse_methods(Cell, _REFUSED, "a random number")


def _number(value, operate: Callable, action: str, infinite: bool = False):
  """Returns an operand as a number, or NotImplemented for other types."""
  if isinstance(value, Cell):
    refuse(f"{action} random numbers")
  number = exact(value)
  if isinstance(number, float) and not (infinite and number == number):
    refuse("computes with a random number and one that is not finite")
  return _unknown(operate, value) if number is None else number


def exp(value: Fraction) -> Fraction:
  """Returns the exponential, also beyond the range of a float.

  Values are clamped to +-10,000. Only a masked logit (-1e9, or the least float)
  is further from other logits. It wins with a probability far below the weight
  of any path that is followed.
  """
  power = round(min(max(value, -10_000), 10_000) / math.log(2))
  rest = min(max(float(value) - power * math.log(2), -1), 1)
  return Fraction(math.exp(rest)) * Fraction(2) ** power


def uniform(kind: type = np.float64) -> Cell:
  """Makes a uniform."""
  return Cell("u", Uniform(), kind=kind)


def exponential(kind: type = np.float64) -> Cell:
  """Makes exponential noise."""
  return Cell("E", Exponential(), kind=kind)


def _as_fine(cell: Cell, dtype, *_, **__) -> Cell:
  if np.dtype(dtype) not in FINE:
    refuse(f"rounds a random number to {np.dtype(dtype).name}")
  return cell.as_kind(np.float64)


# The attributes of floats that are followed.
_ATTRIBUTES: dict[str, Callable[[Cell], Any]] = {
  "real": lambda cell: cell,
  "shape": lambda _: (),
  "ndim": lambda _: 0,
  "size": lambda _: 1,
  "dtype": lambda _: np.dtype(float),
  "astype": lambda cell: functools.partial(_as_fine, cell),
}
_ATTRIBUTES |= dict.fromkeys(
  ("item", "tolist"), lambda cell: lambda: cell.as_kind(float)
)
_ATTRIBUTES |= dict.fromkeys(
  ("copy", "conjugate", "squeeze"), lambda cell: lambda: cell
)
