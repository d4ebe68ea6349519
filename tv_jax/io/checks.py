"""Checks of values from outside: options, and fields of JSON files.

A check is a function `(value, where) -> value`. It returns the value in the
form that is used (a tuple for a list, a float for an int), or raises a
UserError that says what to give instead:

    check = fields({"rows": integer(least=1)})
    check(raw, "config.json")
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Mapping
from typing import Any

import numpy as np

from tv_jax.io.errors import UserError
from tv_jax.io.reading import brief

Check = Callable[..., Any]


def _is_integer(value) -> bool:
  # True is an integer in Python, but rarely meant as a number.
  return isinstance(value, int | np.integer) and not isinstance(value, bool)


def is_number(value) -> bool:
  """Returns whether a value is an integer or a float of Python or NumPy."""
  return _is_integer(value) or isinstance(value, float | np.floating)


def _check(
  is_valid: Callable[[Any], bool], wanted: str, convert: Callable = lambda x: x
) -> Check:
  """Makes a check of a predicate; `wanted` says what is valid, for errors."""

  def check(value, where: str = ""):
    if not is_valid(value):
      prefix = f"{where}=" if where else ""
      raise UserError(f"{prefix}{brief(value)}: give {wanted}")
    return convert(value)

  return check


boolean = _check(
  lambda x: isinstance(x, bool | np.bool_), "true or false", bool
)
text = _check(lambda x: isinstance(x, str), "a text")
mapping = _check(lambda x: isinstance(x, Mapping), "an object with fields")
_list = _check(lambda x: isinstance(x, list | tuple), "a list")


def _limits(least: float, most: float) -> str:
  if most < math.inf:
    return f" from {least} to {most}"
  return f" of at least {least:g}" if least > -math.inf else ""


def integer(least: float = -math.inf, most: float = math.inf) -> Check:
  """Checks an integer; the limits are included."""
  return _check(
    lambda x: _is_integer(x) and least <= x <= most,
    "an integer" + _limits(least, most),
    int,
  )


def number(
  least: float = -math.inf,
  most: float = math.inf,
  excluded: float | None = None,
) -> Check:
  """Checks a finite number; the limits are included."""
  wanted = "a number" + _limits(least, most)
  if excluded is not None:
    wanted += f", but not {excluded}"

  def is_valid(x):
    return is_number(x) and math.isfinite(x) and least <= x <= most

  return _check(lambda x: is_valid(x) and x != excluded, wanted, float)


def one_of(values: Collection) -> Check:
  """Checks that a value is among some texts or other constants."""
  return _check(
    lambda x: any(x == y and type(x) is type(y) for y in values),
    "one of " * (len(values) > 1) + ", ".join(map(repr, values)),
  )


def list_of(check: Check) -> Check:
  """Checks a list or tuple, and each of its values by `check`."""
  return lambda values, where="": tuple(
    check(value, where) for value in _list(values, where)
  )


def fields(required: Mapping[str, Check], **optional: Check) -> Check:
  """Checks an object's fields; returns those that are named here, as a dict."""

  def check(value, where: str = ""):
    prefix = f"{where}." if where else ""
    value = mapping(value, where)
    if missing := [name for name in required if name not in value]:
      raise UserError(f"{prefix}{', '.join(missing)} is missing")
    return {
      name: inner(value[name], prefix + name)
      for name, inner in {**required, **optional}.items()
      if name in value
    }

  return check
