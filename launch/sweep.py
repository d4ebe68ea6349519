"""What was launched, kept in the folder that it was launched into.

WORKDIR/sweeps/NAME-ID/ has one sweep: what was given, and its units. The ID is
of the units, so the same command finds the same sweep. How far it is, is said
by the units' own folders.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import pathlib
import subprocess
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from launch import fields
from launch.units import Unit
from tv_jax.edge import disk as files
from tv_jax.edge import reading

FOLDER = "sweeps"
TOLD = "sweep.json"
UNITS = "units.jsonl"
CANCELLED = "CANCELLED"
_LOCK = "launcher"
# Kinds as `records.faults` reads them.
_TOLD = {
  "experiments": [str],
  "arguments": [str],
  "backend": str,
  "retries": int,
  "folder": str,
}
_UNIT = {
  **dict.fromkeys(("name", "config", "folder", "id"), str),
  "flags": [str],
  "gpus": int,
}
_HOLDER = {"host": str, "pid": int}


class Sweep(NamedTuple):
  """A sweep.

  Attributes:
    folder: Of its record.
    told: As in sweep.json: what `of` is given, the folder, the commit.
    units: In the order of their starts.
  """

  folder: pathlib.Path
  told: dict
  units: tuple[Unit, ...]

  @property
  def workdir(self) -> pathlib.Path:
    """Where the units' folders are."""
    return self.folder.parents[1]

  @property
  def holder(self) -> dict | None:
    """Host and pid of the launcher that is at work, if one is."""
    with contextlib.ExitStack() as resources:
      try:
        files.lock(self.folder, resources, _LOCK)
      except files.StoreError:
        path = self.folder / _LOCK
        with contextlib.suppress(ValueError):
          found = fields.of(reading.text(path), _HOLDER, str(path))
          if 0 < found["pid"] < 2**31:  # others are of many processes, or none
            return found
        return {}
    return None


def of(workdir: pathlib.Path, units: Sequence[Unit], told: dict) -> Sweep:
  """The sweep of these units; its record may be there, or is to be written.

  Args:
    workdir: For all units.
    units: All, those that are done as well.
    told: The "experiments", the "arguments" of the command, its "backend" and
      "retries".
  """
  ids = json.dumps([(unit.name, unit.id) for unit in units])
  own = hashlib.sha256(ids.encode()).hexdigest()[:8]
  names = told["experiments"]
  name = names[0] if len(names) == 1 else "several"
  folder = workdir / FOLDER / f"{name}-{own}"
  told = told | {"folder": os.getcwd(), "commit": _commit()}
  return Sweep(folder, told, tuple(units))


def write(sweep: Sweep) -> None:
  """Writes the record, which is for who holds the sweep.

  In one go, as it is to stay: an array's element may start at any time.
  """
  lines = [_line(unit, sweep.workdir) + "\n" for unit in sweep.units]
  files.write_atomic(sweep.folder / UNITS, "".join(lines))
  text = json.dumps(sweep.told, indent=2) + "\n"
  files.write_atomic(sweep.folder / TOLD, text)


def read(folder: pathlib.Path) -> Sweep:
  """A sweep, of its record.

  Raises:
    ValueError: There is none.
  """
  try:
    told = fields.of(reading.text(folder / TOLD), _TOLD, str(folder / TOLD))
    lines = fields.of_lines(folder / UNITS, _UNIT)
    units = tuple(_unit(line, folder.parents[1]) for line in lines)
  except ValueError as error:
    raise ValueError(f"{folder} is no record of a sweep: {error}") from error
  return Sweep(folder, told, units)


def read_all(workdir: pathlib.Path) -> list[Sweep]:
  """All that were launched into a folder.

  Raises:
    ValueError: None was.
  """
  found = [read(path.parent) for path in workdir.glob(f"{FOLDER}/*/{TOLD}")]
  if not found:
    raise ValueError(f"{workdir}: no sweep was launched into it")
  return sorted(found, key=lambda one: one.folder)


@contextlib.contextmanager
def held(sweep: Sweep) -> Iterator[None]:
  """One launcher at a time, in the record's folder, which is made.

  Raises:
    StoreError: Another one is at work.
  """
  sweep.folder.mkdir(parents=True, exist_ok=True)
  with contextlib.ExitStack() as resources:
    remedy = "wait for it, or end it with python -m launch cancel"
    files.lock(sweep.folder, resources, _LOCK, remedy)
    yield


def _line(unit, workdir) -> str:
  """With the folder as seen from the sweep's, which may be moved."""
  own = unit._asdict()
  own["folder"] = os.path.relpath(unit.folder, workdir)
  return json.dumps(own)


def _unit(line, workdir) -> Unit:
  own = {name: line[name] for name in _UNIT}
  own["folder"] = workdir / own["folder"]
  own["flags"] = tuple(own["flags"])
  return Unit(**own)


def _commit() -> str | None:
  """Of the sources that are here, and whether they were changed since."""
  here = pathlib.Path(__file__).parents[1]
  command = ["git", "-C", str(here), "describe", "--always", "--dirty"]
  command += ["--abbrev=40", "--exclude=*"]
  try:
    done = subprocess.run(command, capture_output=True, text=True, timeout=10)
  except (OSError, subprocess.TimeoutExpired):
    return None
  return done.stdout.strip() or None
