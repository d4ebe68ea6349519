"""What a launcher wrote, read again: of the right shape, or told in a line."""

from __future__ import annotations

import pathlib
from collections.abc import Iterator, Mapping

from tv_jax.edge import reading


def of(source: str, kinds: dict, where: str) -> dict:
  """The fields of a JSON object.

  Args:
    source: The object's text.
    kinds: As `faults` reads them; other fields are not looked at.
    where: What errors call it.

  Raises:
    ValueError: It is no JSON, or has other fields.
  """
  found = reading.parse_object(source, where)
  if wrong := [*faults(kinds, found)]:
    raise ValueError(f"{where}: {wrong[0]}")
  return found


def of_lines(path: pathlib.Path, kinds: dict) -> Iterator[dict]:
  """The fields of each line of a file; errors as of `of`."""
  for number, line in enumerate(reading.text(path).splitlines(), 1):
    yield of(line, kinds, f"{path}, line {number}")


def faults(kind, value, where: str = "") -> Iterator[str]:
  """What a JSON value, called `where`, lacks to be of a kind.

  A kind is a type or several; a list of a kind; or a dict with these fields.
  """
  if isinstance(kind, dict):
    if not isinstance(value, Mapping):
      yield f"{where or 'it'} must hold fields"
      return
    for name, inner in kind.items():
      place = f"{where}.{name}" if where else name
      if name in value:
        yield from faults(inner, value[name], place)
      else:
        yield f"{place} is missing"
  elif isinstance(kind, list):
    if not isinstance(value, list):
      yield f"{where or 'it'} must be a list"
      return
    for one in value:
      yield from faults(kind[0], one, f"{where}[]")
  else:
    kinds = kind if isinstance(kind, tuple) else (kind,)
    # True is an int, but no number.
    if type(value) not in kinds:
      yield f"{where}={value!r} is of a wrong type"
