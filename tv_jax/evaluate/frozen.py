"""Dicts to frozen dataclasses, with everything that is wrong in one error."""

from __future__ import annotations

import dataclasses
import types
import typing
from collections.abc import Mapping


def build(cls, raw: Mapping, prefix: str = ""):
  """A dataclass of a dict with the same fields.

  A field may be a dataclass itself, a bool, a number, a text, or a tuple of
  any number of these. An int will do for a float, and a list for a tuple.

  Args:
    cls: The dataclass.
    raw: The values by name; one for each field that has no default.
    prefix: What stands before the names in errors.

  Returns:
    The dataclass.

  Raises:
    ValueError: All that is wrong, by name.
  """
  faults = []
  built = _build(cls, raw, prefix, faults)
  if faults:
    raise ValueError("; ".join(faults))
  return _finish(built)


def _build(cls, raw, prefix, faults):
  """The values, checked; dataclasses are made when nothing is wrong."""
  hints = typing.get_type_hints(cls)
  fields = {field.name: field for field in dataclasses.fields(cls)}
  faults += [
    f"unknown field {prefix}{name}" for name in sorted(set(raw) - set(fields))
  ]
  values = {}
  for name, field in fields.items():
    where, kind = f"{prefix}{name}", hints[name]
    if name not in raw:
      if field.default is dataclasses.MISSING:
        faults.append(f"{where} is missing")
    elif dataclasses.is_dataclass(kind):
      if isinstance(raw[name], Mapping):
        values[name] = _build(kind, raw[name], f"{where}.", faults)
      else:
        faults.append(f"{where}={raw[name]!r} must be a group of fields")
    else:
      values[name] = _value(kind, raw[name], where, faults)
  return types.SimpleNamespace(cls=cls, values=values)


def _value(kind, value, where, faults):
  """A value of a plain kind, or of tuple[kind, ...]."""
  if typing.get_origin(kind) is tuple:
    one = typing.get_args(kind)[0]
    if isinstance(value, list | tuple):
      return tuple(_value(one, each, where, faults) for each in value)
    faults.append(f"{where}={value!r} must be a list of {one.__name__}")
    return ()
  allowed = (int, float) if kind is float else (kind,)
  # True is an int, but hardly ever meant as one.
  if not isinstance(value, allowed) or (
    isinstance(value, bool) and kind is not bool
  ):
    faults.append(f"{where}={value!r} must be of type {kind.__name__}")
    return None
  return kind(value)


def _finish(built):
  values = {
    name: _finish(value) if isinstance(value, types.SimpleNamespace) else value
    for name, value in built.values.items()
  }
  return built.cls(**values)
