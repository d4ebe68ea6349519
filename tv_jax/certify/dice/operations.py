"""What can be done with random numbers: one table for NumPy, torch and JAX.

An array of random numbers is an object array of NumPy, whose entries are cells
and numbers. NumPy applies an operation to each entry.
"""

from __future__ import annotations

import bisect
import functools
import math
import operator
from collections.abc import Callable
from typing import Any

import numpy as np

from tv_jax.certify.dice import cells, races
from tv_jax.certify.dice.cells import Cell
from tv_jax.certify.dice.paths import refuse


def is_random(value) -> bool:
  """Tells whether a value is a random number, or an array that holds any."""
  if isinstance(value, np.ndarray):
    return value.dtype == object and any(type(x) is Cell for x in value.flat)
  return type(value) is Cell


def _is_nan(x) -> bool:
  return type(x) is not Cell and x != x


def _either(order: Callable) -> Callable:
  """Returns a function that chooses the larger or smaller of two numbers."""

  def choose(x, y):
    if type(y) is Cell:
      x, y = y, x
    return x if _is_nan(x) or (not _is_nan(y) and order(x, y)) else y

  return choose


def _log(value):
  x: Any = races.number(value)
  if type(x) is Cell:
    return x.log()
  return math.log(x) if x > 0 else -math.inf if x == 0 else math.nan


def _divided(x, y):
  if type(x) is Cell or type(y) is Cell:
    return x / y
  with np.errstate(all="ignore"):
    return float(np.float64(x) / np.float64(y))


def _fact(function: Callable) -> Callable:
  """Makes a test of a number; it takes a random number for a finite one."""

  def of_number(x):
    known = x.known if type(x) is Cell else x
    return bool(function(0.5 if known is None else float(known)))

  return of_number


def _each(function: Callable, count: int) -> Any:
  """Makes a function of entries a function of arrays; `reduce` takes axes."""
  return np.frompyfunc(function, count, 1, identity=None)


# By NumPy's names. The first group answers with booleans.
ANSWERS: dict[str, Any] = {
  "less": np.less,
  "less_equal": np.less_equal,
  "greater": np.greater,
  "greater_equal": np.greater_equal,
  "equal": np.equal,
  "not_equal": np.not_equal,
  "isnan": _each(_fact(math.isnan), 1),
  "isinf": _each(_fact(math.isinf), 1),
  "isfinite": _each(_fact(math.isfinite), 1),
}
OPERATIONS: dict[str, Any] = ANSWERS | {
  "add": np.add,
  "subtract": np.subtract,
  "multiply": np.multiply,
  "divide": _each(_divided, 2),
  "negative": np.negative,
  "positive": np.positive,
  "log": _each(_log, 1),
  "log1p": _each(lambda x: _log(x + 1), 1),
  "maximum": _each(_either(operator.ge), 2),
  "minimum": _each(_either(operator.le), 2),
  "clip": cells.clamped,
}
# Other names of these operations: operators, and functions of torch and JAX.
SHORT = {"lt": "less", "le": "less_equal", "gt": "greater", "eq": "equal"}
SHORT |= {"ge": "greater_equal", "ne": "not_equal", "sub": "subtract"}
SHORT |= {"mul": "multiply", "neg": "negative", "pos": "positive"}
SHORT |= dict.fromkeys(("div", "truediv", "true_divide"), "divide")


def computed(name: str, *operands) -> np.ndarray:
  """Applies an operation to arrays of entries."""
  with np.errstate(all="ignore"):
    entries = OPERATIONS[name](*(np.asarray(x, object) for x in operands))
  return np.asarray(entries, bool if name in ANSWERS else object)


def searched(row, values, right: bool) -> np.ndarray:
  """Returns how many of the sorted numbers are below each random number."""
  if is_random(row):
    refuse("searches among random numbers")
  find = bisect.bisect_right if right else bisect.bisect_left
  found = _each(functools.partial(find, row.tolist()), 1)(values)
  return np.asarray(found, np.int64)
