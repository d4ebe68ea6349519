"""Rules of JAX's primitives on arrays of random numbers.

An array of random numbers is a NumPy array of objects: cells and numbers. NumPy
applies the operators of its entries, so tables of NumPy functions serve random
arrays. JAX itself moves their entries, and computes all other arrays.
"""

from __future__ import annotations

import functools
import math
import operator
from collections.abc import Callable
from typing import Any

import numpy as np

from tv_jax.certify.dice import cells
from tv_jax.certify.dice.cells import Cell, Uniform
from tv_jax.certify.dice.paths import refuse, refuse_methods
from tv_jax.certify.dice.races import best, winner

# jax.random adds the least positive number to a uniform before a logarithm.
_TINY = 2.0**-100


class Bits:
  """Random bits that `jax.random` converts to a uniform.

  The conversion shifts the bits down to a mantissa, sets the exponent of 1, and
  reads the float 1 + u. Bits have the same order as their uniforms.
  """

  def __init__(self, uniform: Uniform, width: int, step: int = 0):
    """Keeps the uniform that these bits become, and the steps done so far."""
    self.uniform, self.width, self.step = uniform, width, step

  def next(self, step: int, operand: Any, wanted: Any) -> Bits:
    """Does the next step; refuses any other."""
    if isinstance(operand, Bits) or (self.step, operand) != (step, wanted):
      refuse("computes with random bits")
    return Bits(self.uniform, self.width, step + 1)

  def __rshift__(self, count):
    """Shifts the bits of a mantissa down."""
    return self.next(0, count, 9 if self.width == 32 else 12)

  def __or__(self, other):
    """Sets the exponent."""
    size = self.width // 8
    return self.next(1, other, int(np.array(1, f"f{size}").view(f"u{size}")))

  def as_float(self) -> Cell:
    """Reads the bits as a float."""
    self.next(2, None, None)
    result: Any = Cell("u", self.uniform) + 1
    return result


_REFUSED = ("__add__", "__radd__", "__sub__", "__rsub__", "__mul__", "__rmul__")
_REFUSED += ("__ror__", "__eq__", "__ne__", "__lt__", "__le__", "__gt__")
_REFUSED += ("__ge__", "__neg__", "__hash__", "__bool__")
refuse_methods(Bits, _REFUSED, "random bits")


def is_random(entry) -> bool:
  """Tells whether an entry is random."""
  return isinstance(entry, Cell | Bits)


def _log(x):
  if not isinstance(x, Cell):
    return math.log(x) if x > 0 else -math.inf if x == 0 else math.nan
  if x.form == "u" and x.a == 1 and 0 < x.b < _TINY:
    x = Cell("u", x.source)
  return x.log()


def _is_nan(x) -> bool:
  return not is_random(x) and x != x


def _is_finite(x) -> bool:
  return is_random(x) or math.isfinite(x)


def _either(order: Callable) -> Callable:
  """Returns a function that chooses the larger or smaller of two numbers."""

  def choose(x, y):
    if isinstance(y, Cell):
      x, y = y, x
    return x if _is_nan(x) or (not _is_nan(y) and order(x, y)) else y

  return choose


_larger, _smaller = _either(operator.ge), _either(operator.le)


def _divided(x, y):
  if is_random(x) or is_random(y):
    return x / y
  with np.errstate(all="ignore"):
    return float(np.float64(x) / np.float64(y))


def _each(function: Callable, count: int) -> Any:
  """Makes a function of entries a function of arrays; `reduce` takes axes."""
  return np.frompyfunc(function, count, 1, identity=None)


# Primitives that return their arrays.
SAME = ("copy", "copy_p", "device_put", "optimization_barrier", "stage")
# Primitives that move entries and compute nothing. JAX applies them to indices.
MOVED = ("reshape", "squeeze", "expand_dims", "transpose", "rev", "stack")
MOVED += ("unstack", "concatenate", "split", "broadcast_in_dim", "slice", "pad")
MOVED += ("dynamic_slice", "dynamic_update_slice", "gather", "scatter")
MOVED += ("select_n",)
# The positions of arguments that may be random, for primitives where others are
# indices or conditions.
DATA = {"gather": (0,), "pad": (0, 1), "dynamic_update_slice": (0, 1)}
DATA |= {"scatter": (0, 2), "dynamic_slice": (0,), "select_n": range(1, 99)}
# A sort compares floats in a total order.
COMPARED = cells.COMPARED | {"lt_to": np.less, "le_to": np.less_equal}
COMPUTED: dict[str, Any] = cells.COMPUTED | {
  "or": np.bitwise_or,
  "div": _each(_divided, 2),
  "log": _each(_log, 1),
  "log1p": _each(lambda x: _log(x + 1), 1),
  "max": _each(_larger, 2),
  "min": _each(_smaller, 2),
  "clamp": _each(lambda low, x, high: _smaller(_larger(x, low), high), 3),
  "shift_right_logical": np.right_shift,
  "bitcast_convert_type": _each(lambda x: x.as_float(), 1),
}


def _raced(largest: bool, x, axes, index_dtype, **_):
  places = best(winner, x if largest else -x, *axes)[1]
  return places.squeeze(*axes).astype(index_dtype)


def _top_k(x, k, axis=-1, **_):
  values, places = best(winner, x, axis, k)
  return [values, places.astype(np.int32)]


# Primitives from random arrays to an array or a list of arrays.
REDUCED: dict[str, Callable] = {
  "argmax": functools.partial(_raced, True),
  "argmin": functools.partial(_raced, False),
  "reduce_max": lambda x, axes, **_: COMPUTED["max"].reduce(x, axes),
  "reduce_min": lambda x, axes, **_: COMPUTED["min"].reduce(x, axes),
  "reduce_sum": lambda x, axes, **_: np.add.reduce(x, axes),
  "is_finite": lambda x, **_: np.asarray(_each(_is_finite, 1)(x), bool),
  "top_k": _top_k,
}
