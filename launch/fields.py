"""What a launcher wrote, read again: of the right shape, or told in a line."""

from __future__ import annotations

import pathlib
from collections.abc import Iterator

from tv_jax.edge import reading
from tv_jax.runs import records


def of(source: str, kinds: dict, where: str) -> dict:
  """The fields of a JSON object.

  Args:
    source: The object's text.
    kinds: As `records.faults` reads them; other fields are not looked at.
    where: What errors call it.

  Raises:
    ValueError: It is no JSON, or has other fields.
  """
  found = reading.parse_object(source, where)
  if faults := [*records.faults(kinds, found)]:
    raise ValueError(f"{where}: {faults[0]}")
  return found


def of_lines(path: pathlib.Path, kinds: dict) -> Iterator[dict]:
  """The fields of each line of a file; errors as of `of`."""
  for number, line in enumerate(reading.text(path).splitlines(), 1):
    yield of(line, kinds, f"{path}, line {number}")
