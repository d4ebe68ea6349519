"""Checks of values from outside: options, and fields of JSON files.

A check is a function `(value, where, faults) -> value`. It returns the value in
the form that is used (a tuple for a list, a float for an int), or adds a line
to `faults` for each thing that is wrong. `read` raises all lines as one error:

    read(fields({"rows": integer(least=1)}), raw, "config.json")
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Mapping
from typing import Any

import numpy as np

from tv_jax.edge.reading import brief

Check = Callable[[Any, str, list[str]], Any]

MOST = 2**31 - 1  # what an axis of an array can have


def read(check: Check, value, where: str = ""):
  """Returns the checked value.

  Raises:
    ValueError: Everything that is wrong, in one line.
  """
  faults: list[str] = []
  result = check(value, where, faults)
  if faults:
    raise ValueError("; ".join(dict.fromkeys(faults)))
  return result


def is_integer(value) -> bool:
  """Returns whether it is an integer. True is one, but hardly ever meant so."""
  return isinstance(value, int | np.integer) and not isinstance(value, bool)


def is_number(value) -> bool:
  """Returns whether it is an integer or a float, of Python or of NumPy."""
  return is_integer(value) or isinstance(value, float | np.floating)


def that(holds: Callable[[Any], bool], wanted: str, form=lambda x: x) -> Check:
  """Checks a value by a function.

  Args:
    holds: Whether a value is right.
    wanted: What to give instead of a wrong one.
    form: Makes of a right one what is used.
  """

  def check(value, where, faults):
    if holds(value):
      return form(value)
    what = f"{where}={brief(value)}" if where else brief(value)
    faults.append(f"{what}: give {wanted}")
    return None

  return check


boolean = that(lambda x: isinstance(x, bool | np.bool_), "true or false", bool)
text = that(lambda x: isinstance(x, str), "a text")
mapping = that(lambda x: isinstance(x, Mapping), "an object with fields")


def integer(least: float = -math.inf, most: float = math.inf) -> Check:
  """Checks an integer, whose limits are included."""
  wanted = "an integer" + _limits(least, most)
  return that(lambda x: is_integer(x) and least <= x <= most, wanted, int)


def number(
  least: float = -math.inf, most: float = math.inf, but: float | None = None
) -> Check:
  """Checks a finite number; limits are included, unless it is `but` one."""
  wanted = "a number" + _limits(least, most)
  if but is not None:
    wanted += f", but not {but}"
  return that(
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
  """Checks that it is one of some texts, or of other constants."""
  return that(
    lambda x: any(x == y and type(x) is type(y) for y in values),
    "one of " * (len(values) > 1) + ", ".join(map(repr, values)),
  )


def optional(check: Check) -> Check:
  """Takes None as well."""
  return lambda value, where, faults: (
    None if value is None else check(value, where, faults)
  )


def list_of(check: Check) -> Check:
  """Checks a list or tuple, each of whose values is of one kind."""
  is_list = that(lambda x: isinstance(x, list | tuple), "a list")

  def check_all(value, where, faults):
    values = is_list(value, where, faults) or ()
    return tuple(check(x, where, faults) for x in values)

  return check_all


def fields(required: Mapping[str, Check], **others: Check) -> Check:
  """Checks an object that has these fields; it may have more.

  Args:
    required: A check for each field that must be there.
    **others: A check for each that may be missing.

  Returns:
    A check, whose value is a dict of all fields that are named and there.
  """

  def check(value, where, faults):
    if mapping(value, where, faults) is None:
      return None
    prefix = f"{where}." if where else ""
    faults += [f"{prefix}{x} is missing" for x in required if x not in value]
    return {
      name: inner(value[name], prefix + name, faults)
      for name, inner in {**required, **others}.items()
      if name in value
    }

  return check
