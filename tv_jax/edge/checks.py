"""Checks of values from outside: options, and fields of JSON files.

A check is a function `(value, where, faults) -> value`. It returns the value in
the form that is used (a tuple for a list, a float for an int), or adds a line
to `faults` for each thing that is wrong. `read` raises all lines as one error:

    read(fields({"rows": integer(least=1)}), raw, "config.json")
"""

from __future__ import annotations

import math
import typing
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
anything = that(lambda x: True, "")
mapping = that(lambda x: isinstance(x, Mapping), "an object with fields")


def integer(least: int | None = None, most: int | None = None) -> Check:
  """Checks an integer, whose limits are included."""
  holds, words = _limits(least, most, None, None)
  return that(lambda x: is_integer(x) and holds(x), f"an integer{words}", int)


def number(
  least: float | None = None,
  most: float | None = None,
  *,
  above: float | None = None,
  below: float | None = None,
) -> Check:
  """Checks a finite number; `least` and `most` are included."""
  holds, words = _limits(least, most, above, below)
  return that(
    lambda x: is_number(x) and math.isfinite(x) and holds(x),
    f"a number{words}",
    float,
  )


def _limits(least, most, above, below):
  """Returns whether a number is within limits, as a function, and in words."""

  def holds(x):
    return (
      (least is None or x >= least)
      and (most is None or x <= most)
      and (above is None or x > above)
      and (below is None or x < below)
    )

  if least is not None and most is not None:
    return holds, f" from {least} to {most}"
  limits = {
    "of at least": least,
    "above": above,
    "of at most": most,
    "below": below,
  }
  words = [f"{word} {x:g}" for word, x in limits.items() if x is not None]
  return holds, " " * bool(words) + " and ".join(words)


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


def build(cls: type) -> Check:
  """Checks an object with the fields of a dataclass, which is its value."""
  kinds = {int: integer(), float: number(), str: text, bool: boolean}
  kinds |= {tuple[kind, ...]: list_of(check) for kind, check in kinds.items()}
  hints = typing.get_type_hints(cls)
  check = fields({name: kinds[hint] for name, hint in hints.items()})

  def check_all(value, where, faults):
    before = len(faults)
    values = check(value, where, faults)
    return cls(**values) if len(faults) == before else None

  return check_all
