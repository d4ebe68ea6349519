"""Checks of values from outside: options, flags, configs, JSON of files.

A check is a function `(value, where, faults) -> value`. It returns the value in
the form that is used (a tuple for a list, a float for an int), or adds a line
to `faults` for each thing that is wrong. `read` raises all lines as one error.
`integer`, `number`, `list_of`, `fields` and the like make checks:

    read(fields({"rows": integer(least=1)}, name=text), raw, "config.json")
"""

from __future__ import annotations

import dataclasses
import math
import types
import typing
from collections.abc import Callable, Collection, Mapping
from typing import Any

import numpy as np

from tv_jax.edge.reading import brief

Check = Callable[[Any, str, list[str]], Any]

# NumPy's names of an array's kinds.
_KINDS = {"integers": "iu", "numbers": "iuf", "floats": "f", "texts": "U"}
# What an axis of an array can have.
MOST = 2**31 - 1


def read(check: Check, value, where: str = "", most: int = 8):
  """Returns the checked value.

  Args:
    check: What it must be.
    value: What is checked.
    where: What errors call it; of fields, what they call the object.
    most: Of many faults, how many are named.

  Raises:
    ValueError: Everything that is wrong, in one line.
  """
  found, told = _run(check, value, where, most)
  if told:
    raise ValueError(told)
  return found


def wrong(check: Check, value, where: str = "", most: int = 8) -> str:
  """Returns what `read` would raise, "" if nothing; arguments as of `read`."""
  return _run(check, value, where, most)[1]


def _run(check, value, where, most):
  faults: list[str] = []
  found = check(value, where, faults)
  different = [*dict.fromkeys(faults)]
  more = len(different) - most
  rest = [f"and {more} more"] if more > 0 else []
  return found, "; ".join(different[:most] + rest)


def is_integer(value) -> bool:
  """Returns whether it is an integer. True is one, but hardly ever meant so."""
  return isinstance(value, int | np.integer) and not isinstance(value, bool)


def is_number(value) -> bool:
  """Returns whether it is an integer or a float, of Python or of NumPy."""
  return is_integer(value) or isinstance(value, float | np.floating)


def integer(least: int | None = None, most: int | None = None) -> Check:
  """Checks an integer, whose limits are included."""
  limits = _Limits(least, most)

  def check(value, where, faults):
    if is_integer(value) and limits.hold(value):
      return int(value)
    return refuse(where, value, f"an integer{limits}", faults)

  return check


def number(
  least: float | None = None,
  most: float | None = None,
  *,
  above: float | None = None,
  below: float | None = None,
) -> Check:
  """Checks a finite number; `least` and `most` are included."""
  limits = _Limits(least, most, above, below)

  def check(value, where, faults):
    found = _float(value) if is_number(value) else math.nan
    if math.isfinite(found) and limits.hold(found):
      return found
    return refuse(where, value, f"a number{limits}", faults)

  return check


def _float(value) -> float:
  """Returns a number as a float; what no float holds is infinite."""
  try:
    return float(value)
  except OverflowError:
    return math.inf


def boolean(value, where: str, faults: list[str]):
  """Checks True or False."""
  if isinstance(value, bool | np.bool_):
    return bool(value)
  return refuse(where, value, "true or false", faults)


def text(value, where: str, faults: list[str]):
  """Checks a string."""
  if isinstance(value, str):
    return value
  return refuse(where, value, "a text", faults)


def one_of(values: Collection[str]) -> Check:
  """Checks that it is one of some texts, as they are when it is checked."""

  def check(value, where, faults):
    if isinstance(value, str) and value in values:
      return value
    wanted = f"one of {', '.join(map(repr, values))}"
    return refuse(where, value, wanted, faults)

  return check


def one_value(only) -> Check:
  """Checks that it is this value."""

  def check(value, where, faults):
    if value == only and type(value) is type(only):
      return value
    return refuse(where, value, repr(only), faults)

  return check


def anything(value, where: str, faults: list[str]):
  """Takes any value."""
  del where, faults
  return value


def either(*checks: Check) -> Check:
  """Takes what the first of these checks takes that takes it.

  Of what none of them takes, it says what the last of them says.
  """

  def check(value, where, faults):
    for one in checks:
      own: list[str] = []
      found = one(value, where, own)
      if not own:
        return found
    faults += own
    return None

  return check


def optional(check: Check) -> Check:
  """Takes None as well."""
  return lambda value, where, faults: (
    None if value is None else check(value, where, faults)
  )


def array(kind: str, *shape: int | None) -> Check:
  """Checks a NumPy array of this shape; None stands for any size.

  Args:
    kind: "integers", which become int64; "numbers", which must be finite and
      become float32; "floats" or "texts", which stay as they are.
    *shape: The size of each axis.
  """
  sizes = ", ".join("any" if n is None else str(n) for n in shape)

  def check(value, where, faults):
    fits = value.dtype.kind in _KINDS[kind] and len(shape) == value.ndim
    fits &= all(map(lambda n, own: n in (None, own), shape, value.shape))
    if not fits:
      own = f"{value.dtype}{[*value.shape]}"
      faults.append(f"{where} is {own}: give {kind} [{sizes}]")
      return None
    if kind == "integers":
      if (largest := value.max(initial=0)) > np.iinfo(np.int64).max:
        faults.append(f"{where} holds {largest}: give integers of 64 bits")
      return value.astype(np.int64)
    if kind == "numbers":
      found = value.astype(np.float32)
      for place in np.argwhere(~np.isfinite(found))[:1]:
        odd = f"{value[tuple(place)]}, at {place.tolist()}"
        faults.append(f"{where} holds {odd}: give finite numbers")
      return found
    return value

  return check


def list_of(check: Check) -> Check:
  """Checks a list or tuple, each of whose values is of one kind."""

  def check_all(value, where, faults):
    if not isinstance(value, list | tuple):
      return refuse(where, value, "a list", faults)
    return tuple(check(one, where, faults) for one in value)

  return check_all


def fields(required: Mapping[str, Check], **others: Check) -> Check:
  """Checks an object that has these fields; it may have others.

  Args:
    required: A check for each field that must be there.
    **others: A check for each that may be missing.

  Returns:
    A check, whose value is a dict of all fields that are named and there.
  """

  def check(value, where, faults):
    if not isinstance(value, Mapping):
      return refuse(where, value, "an object with fields", faults)
    found = {}
    for name, one in {**required, **others}.items():
      place = f"{where}.{name}" if where else name
      if name in value:
        found[name] = one(value[name], place, faults)
      elif name in required:
        faults.append(f"{place} is missing")
    return found

  return check


def mapping_of(check: Check) -> Check:
  """Checks an object, whatever its fields are called; all are of one kind."""

  def check_all(value, where, faults):
    if not isinstance(value, Mapping):
      return refuse(where, value, "an object with fields", faults)
    return {
      name: check(one, f"{where}.{name}", faults) for name, one in value.items()
    }

  return check_all


def build(cls: type) -> Check:
  """Checks an object with the fields of a dataclass, and no others.

  A field may be a dataclass, a bool, a number, a text, or a tuple of these, or
  have a "check" in its metadata. One that has a default may be left out. The
  check's value is the dataclass.
  """
  hints = typing.get_type_hints(cls)
  known = {field.name: field for field in dataclasses.fields(cls)}
  empty = dataclasses.MISSING
  kinds = {
    name: field.metadata.get("check") or _of_type(hints[name])
    for name, field in known.items()
  }
  needed = {
    name: kinds.pop(name)
    for name, field in known.items()
    if field.default is empty and field.default_factory is empty
  }
  own = fields(needed, **kinds)

  def check(value, where, faults):
    before = len(faults)
    if isinstance(value, Mapping):
      prefix = f"{where}." if where else ""
      faults += [f"unknown field {prefix}{x}" for x in value if x not in known]
    found = own(value, where, faults)
    return None if len(faults) > before else cls(**found)

  return check


def refuse(where: str, value, wanted: str, faults: list[str]) -> None:
  """Adds the line about a value that is none of what is wanted."""
  faults.append(
    f"{where}={brief(value)}: give {wanted}"
    if where
    else (f"{brief(value)}: give {wanted}")
  )


def _of_type(hint) -> Check:
  """Returns the check of a dataclass's field, by its annotation."""
  if dataclasses.is_dataclass(hint):
    return build(typing.cast(type, hint))
  inner = typing.get_args(hint)
  if typing.get_origin(hint) is tuple:
    return list_of(_of_type(inner[0]))
  if typing.get_origin(hint) in (typing.Union, types.UnionType):
    own = either(*(_of_type(x) for x in inner if x is not type(None)))
    return optional(own) if type(None) in inner else own
  simple = {bool: boolean, int: integer(), float: number(), str: text}
  return simple[hint]


@dataclasses.dataclass(frozen=True)
class _Limits:
  least: float | None = None
  most: float | None = None
  above: float | None = None
  below: float | None = None

  def hold(self, value) -> bool:
    return (
      (self.least is None or value >= self.least)
      and (self.most is None or value <= self.most)
      and (self.above is None or value > self.above)
      and (self.below is None or value < self.below)
    )

  def __str__(self) -> str:
    if self.least is not None and self.most is not None:
      return f" from {self.least} to {self.most}"
    words = {
      "of at least": self.least,
      "above": self.above,
      "of at most": self.most,
      "below": self.below,
    }
    told = [f"{word} {x:g}" for word, x in words.items() if x is not None]
    return " " + " and ".join(told) if told else ""
