"""What was launched, kept in the folder that it was launched into.

WORKDIR/sweeps/NAME-ID/ has one sweep: what was given, and its units. The ID is
made from the units, so the same command finds the same sweep. How far it is
can be read from the units' own folders.
"""

from __future__ import annotations

import contextlib
import dataclasses
import hashlib
import json
import os
import pathlib
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from launch.units import Unit
from tv_jax.edge import checks, disk, reading

FOLDER = "sweeps"
TOLD = "sweep.json"
UNITS = "units.jsonl"
CANCELLED = "CANCELLED"
_LOCK = "launcher"


@dataclasses.dataclass(frozen=True)
class Told:
  """What a sweep's command was given.

  Attributes:
    experiments: Their names.
    arguments: Of the command.
    backend: Where the units run.
    retries: Of a unit.
    folder: In which the command was given.
  """

  experiments: tuple[str, ...]
  arguments: tuple[str, ...]
  backend: str
  retries: int
  folder: str = dataclasses.field(default_factory=os.getcwd)


_UNIT = checks.fields(
  {
    "name": checks.text,
    "config": checks.text,
    "flags": checks.list_of(checks.text),
    "folder": checks.text,
    "id": checks.text,
    "gpus": checks.integer(),
  }
)
# Others are numbers of many processes, or of none.
_HOLDER = checks.fields(
  {"host": checks.text, "pid": checks.integer(least=1, most=checks.MOST)}
)


class Sweep(NamedTuple):
  """A sweep.

  Attributes:
    folder: Of its record.
    told: What its command was given.
    units: In the order of their starts, those that are done as well.
  """

  folder: pathlib.Path
  told: Told
  units: tuple[Unit, ...]

  @property
  def workdir(self) -> pathlib.Path:
    """Where the units' folders are."""
    return self.folder.parents[1]

  @property
  def holder(self) -> dict | None:
    """Host and pid of the launcher at work; {} if its name is torn."""
    with contextlib.ExitStack() as resources:
      try:
        disk.lock(self.folder, resources, _LOCK)
      except disk.StoreError:
        with contextlib.suppress(ValueError):
          found = reading.json_object(self.folder / _LOCK)
          return checks.read(_HOLDER, found)
        return {}
    return None


def of(workdir: pathlib.Path, units: Sequence[Unit], told: Told) -> Sweep:
  """Returns the sweep of these units, whether or not its record is there."""
  ids = json.dumps([(unit.name, unit.id) for unit in units])
  own = hashlib.sha256(ids.encode()).hexdigest()[:8]
  name = told.experiments[0] if len(told.experiments) == 1 else "several"
  return Sweep(workdir / FOLDER / f"{name}-{own}", told, tuple(units))


def write(sweep: Sweep) -> None:
  """Writes the record, which is for who holds the sweep.

  In one go, as it is to stay: an array's element may start at any time.
  """
  lines = []
  for unit in sweep.units:  # their folders are relative, as a sweep may move
    folder = os.path.relpath(unit.folder, sweep.workdir)
    lines.append(json.dumps({**unit._asdict(), "folder": folder}) + "\n")
  disk.write_atomic(sweep.folder / UNITS, "".join(lines))
  text = json.dumps(dataclasses.asdict(sweep.told), indent=2) + "\n"
  disk.write_atomic(sweep.folder / TOLD, text)


def read(folder: pathlib.Path) -> Sweep:
  """Reads a sweep's record.

  Raises:
    ValueError: There is none, or it is damaged.
  """
  path = folder / TOLD
  try:
    told = checks.read(checks.build(Told), reading.json_object(path), str(path))
    lines = read_lines(folder / UNITS, _UNIT)
    units = tuple(
      Unit(**{**line, "folder": folder.parents[1] / line["folder"]})
      for line in lines
    )
  except ValueError as error:
    raise ValueError(f"{folder} is no record of a sweep: {error}") from error
  return Sweep(folder, told, units)


def read_lines(path: pathlib.Path, check: checks.Check) -> Iterator[dict]:
  """Yields the JSON object of each line of a file, checked."""
  for number, line in enumerate(reading.text(path).splitlines(), 1):
    where = f"{path}, line {number}"
    yield checks.read(check, reading.parse(line, where), where)


def read_all(workdir: pathlib.Path) -> list[Sweep]:
  """Reads all sweeps that were launched into a folder.

  Raises:
    ValueError: None was.
  """
  found = [read(path.parent) for path in workdir.glob(f"{FOLDER}/*/{TOLD}")]
  if not found:
    raise ValueError(f"{workdir}: no sweep was launched into it")
  return sorted(found, key=lambda one: one.folder)


@contextlib.contextmanager
def held(sweep: Sweep) -> Iterator[None]:
  """Holds the record's folder, which is made: one launcher at a time.

  Raises:
    StoreError: Another one is at work.
  """
  sweep.folder.mkdir(parents=True, exist_ok=True)
  with contextlib.ExitStack() as resources:
    remedy = "wait for it, or end it with python -m launch cancel"
    disk.lock(sweep.folder, resources, _LOCK, remedy)
    yield
