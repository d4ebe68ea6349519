"""Dicts to frozen dataclasses, with everything that is wrong in one error."""

import dataclasses
import typing
from collections.abc import Mapping


def build(cls, raw: Mapping):
  """A dataclass of a dict with the same fields.

  A field may be a dataclass itself, a bool, a number, a text, or a tuple of
  any number of these. An int will do for a float, and a list for a tuple. A
  field that has a default may be left out.

  Raises:
    ValueError: All that is wrong, by name.
  """
  faults = []
  built = _build(cls, raw, "", faults)
  if faults:
    raise ValueError("; ".join(faults))
  return built


def _build(cls, raw, prefix, faults):
  """The dataclass; None as soon as anything is wrong."""
  hints = typing.get_type_hints(cls)
  fields = {field.name: field for field in dataclasses.fields(cls)}
  faults += [
    f"unknown field {prefix}{name}" for name in sorted(set(raw) - set(fields))
  ]
  values = {}
  for name, field in fields.items():
    where = f"{prefix}{name}"
    if name in raw:
      values[name] = _value(hints[name], raw[name], where, faults)
    elif field.default is dataclasses.MISSING:
      faults.append(f"{where} is missing")
  return None if faults else cls(**values)


def _value(kind, value, where, faults):
  """A value of a field's kind."""
  if dataclasses.is_dataclass(kind):
    if isinstance(value, Mapping):
      return _build(kind, value, f"{where}.", faults)
    faults.append(f"{where}={value!r} must be a group of fields")
    return None
  if typing.get_origin(kind) is tuple:
    one = typing.get_args(kind)[0]
    if isinstance(value, list | tuple):
      return tuple(_value(one, each, where, faults) for each in value)
    faults.append(f"{where}={value!r} must be a list of {one.__name__}")
    return None
  allowed = (int, float) if kind is float else (kind,)
  # True is an int, but hardly ever meant as one.
  if not isinstance(value, allowed) or (
    isinstance(value, bool) and kind is not bool
  ):
    faults.append(f"{where}={value!r} must be of type {kind.__name__}")
    return None
  return kind(value)
