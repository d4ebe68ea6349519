"""Checks of values from outside: options, and fields of JSON files.

A check is a function `(value, where) -> value`. It returns the value in the
form that is used (a tuple for a list, a float for an int), or raises a
ValueError that says what to give instead:

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


def _that(holds: Callable[[Any], bool], wanted: str, form=lambda x: x) -> Check:
  """Makes a check from a predicate.

  Args:
    holds: Returns whether a value is valid.
    wanted: Describes valid values, for the error.
    form: Converts a valid value to the form that is used.
  """

  def check(value, where: str = ""):
    if not holds(value):
      what = f"{where}={brief(value)}" if where else brief(value)
      raise UserError(f"{what}: give {wanted}")
    return form(value)

  return check


boolean = _that(lambda x: isinstance(x, bool | np.bool_), "true or false", bool)
text = _that(lambda x: isinstance(x, str), "a text")
mapping = _that(lambda x: isinstance(x, Mapping), "an object with fields")
_list = _that(lambda x: isinstance(x, list | tuple), "a list")


def integer(least: float = -math.inf, most: float = math.inf) -> Check:
  """Checks an integer; the limits are included."""
  wanted = "an integer" + _limits(least, most)
  return _that(lambda x: _is_integer(x) and least <= x <= most, wanted, int)


def number(
  least: float = -math.inf, most: float = math.inf, but: float | None = None
) -> Check:
  """Checks a finite number; the limits are included, `but` is not."""
  wanted = "a number" + _limits(least, most)
  if but is not None:
    wanted += f", but not {but}"
  return _that(
    lambda x: (
      is_number(x) and math.isfinite(x) and least <= x <= most and x != but
    ),
    wanted,
    float,
  )


def _limits(least, most) -> str:
  if most < math.inf:
    return f" from {least} to {most}"
  return f" of at least {least:g}" if least > -math.inf else ""


def one_of(values: Collection) -> Check:
  """Checks that a value is among some texts or other constants."""
  return _that(
    lambda x: any(x == y and type(x) is type(y) for y in values),
    "one of " * (len(values) > 1) + ", ".join(map(repr, values)),
  )


def list_of(check: Check) -> Check:
  """Checks a list or tuple, and each of its values by `check`."""
  return lambda values, where="": tuple(
    check(value, where) for value in _list(values, where)
  )


def fields(required: Mapping[str, Check], **others: Check) -> Check:
  """Checks an object with these fields; further fields are ignored.

  Args:
    required: A check for each required field.
    **others: A check for each optional field.

  Returns:
    A check that returns a dict of the named fields that the object has.
  """

  def check(value, where: str = ""):
    prefix = f"{where}." if where else ""
    value = mapping(value, where)
    if missing := [name for name in required if name not in value]:
      raise UserError(f"{prefix}{', '.join(missing)} is missing")
    return {
      name: inner(value[name], prefix + name)
      for name, inner in {**required, **others}.items()
      if name in value
    }

  return check
