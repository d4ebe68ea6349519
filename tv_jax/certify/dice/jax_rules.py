"""JAX's primitives on arrays of random numbers.

JAX itself moves the entries of arrays, and computes arrays without random
numbers. All others are in the table of operations, or here.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import numpy as np

from tv_jax.certify.dice.cells import Cell
from tv_jax.certify.dice.choices import Uniform
from tv_jax.certify.dice.operations import OPERATIONS, SHORT
from tv_jax.certify.dice.paths import refuse, refuse_methods
from tv_jax.certify.dice.races import best, winner


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
  return type(entry) in (Cell, Bits)


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
# The operations' names in JAX. A sort compares floats in a total order.
NAMES = SHORT | {"lt_to": "less", "le_to": "less_equal", "max": "maximum"}
NAMES |= {"min": "minimum", "is_finite": "isfinite"}


def _clamped(low, x, high):
  return OPERATIONS["minimum"](OPERATIONS["maximum"](x, low), high)


def _raced(largest: bool, x, axes, index_dtype, **_):
  places = best(winner, x if largest else -x, *axes)[1]
  return places.squeeze(*axes).astype(index_dtype)


def _as_float(entry, kind: np.dtype):
  if type(entry) is not Bits or kind.kind != "f":
    refuse("reads the bits of random numbers")
  return entry.as_float()


def _top_k(x, k, axis=-1, **_):
  values, places = best(winner, x, axis, k)
  return [values, places.astype(np.int32)]


# Other primitives, from random arrays to an array or a list of arrays.
OTHERS: dict[str, Callable] = {
  "argmax": functools.partial(_raced, True),
  "argmin": functools.partial(_raced, False),
  "reduce_max": lambda x, axes, **_: OPERATIONS["maximum"].reduce(x, axes),
  "reduce_min": lambda x, axes, **_: OPERATIONS["minimum"].reduce(x, axes),
  "reduce_sum": lambda x, axes, **_: np.add.reduce(x, axes),
  "top_k": _top_k,
  "clamp": _clamped,
  "or": np.bitwise_or,
  "shift_right_logical": np.right_shift,
  "bitcast_convert_type": lambda x, new_dtype: np.frompyfunc(
    lambda entry: _as_float(entry, np.dtype(new_dtype)), 1, 1
  )(x),
}
