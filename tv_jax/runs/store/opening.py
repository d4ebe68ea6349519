"""What happens when a unit's folder is opened for writing."""

import contextlib
import fcntl
import os
import pathlib
import socket

from tv_jax.edge import disk
from tv_jax.runs.store import unit


def make(folder: pathlib.Path) -> None:
  """Makes the folder and its parents, durably."""
  # What may not be looked at is taken for missing: making it tells why.
  above = folder, *folder.parents
  missing = [one for one in above if not os.path.exists(one)]
  with disk.explained(f"the folder {folder} cannot be made"):
    folder.mkdir(parents=True, exist_ok=True)
    for one in missing:
      disk.sync_folder(one.parent)


def lock(
  folder: pathlib.Path,
  resources: contextlib.ExitStack,
  name: str = "lock",
  remedy: str = "wait for it, or give another --workdir",
) -> None:
  """Takes the lock; the kernel gives it back when the process ends.

  Args:
    folder: What is locked.
    resources: Gives the lock back.
    name: The lock's file.
    remedy: What whoever does not get it is told to do.

  Raises:
    StoreError: Another process has it; or the folder cannot be written in.
  """
  with disk.explained(f"{folder} cannot be written in"):
    # Not emptied by opening it: another holder's name is in it.
    file = resources.enter_context((folder / name).open("ab+", buffering=0))
    try:
      fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
      holder = None
    except BlockingIOError:
      file.seek(0)
      holder = _holder(file.read())
    if holder is None:
      file.truncate(0)
      own = {"host": socket.gethostname(), "pid": os.getpid()}
      file.write(disk.to_bytes(own, "the holder"))
  if holder is not None:
    raise disk.StoreError(f"{folder} is being written by {holder}: {remedy}")


def _holder(data):
  try:
    own = disk.from_bytes(data)
    return f"process {own['pid']} on host {own['host']}"
  except (ValueError, TypeError, KeyError):  # it is about to write its name
    return "another process"


def keep_config(config: dict, folder: pathlib.Path) -> None:
  """Writes the config, or refuses one that is not the folder's.

  A folder without items is nobody's: whoever has mended what kept the first
  item from being made goes on there.

  Raises:
    ValueError: Items of another config are there, every difference is named;
      or what is there is no run's config.
  """
  path, items = folder / unit.CONFIG, folder / unit.ITEMS
  there = unit.load(path, dict)
  if there is None and os.path.exists(items):
    raise ValueError(
      f"{folder} holds {unit.ITEMS}, but no {unit.CONFIG}: give another"
      " --workdir"
    )
  if there and not {*there} & {*config}:  # a model's, say
    raise ValueError(f"{path} is of no run: give another --workdir")
  changes = unit.differences(there or {}, config)
  with disk.explained(f"{items} cannot be read"):
    empty = not os.path.exists(items) or not os.path.getsize(items)
  if there is None or (changes and empty):
    disk.write_json(path, config, "the config")
  elif changes:
    raise ValueError(
      f"{folder} was made with another config: {'; '.join(changes)}: give the"
      " config that is there, or another --workdir"
    )


def keep_sources(sources: dict[str, str], folder: pathlib.Path, empty: bool):
  """Writes the hashes of what is read, or refuses what has changed.

  Raises:
    ValueError: Items are there that were made of something else.
  """
  path = folder / unit.SOURCES
  there = (unit.load(path, dict) or {}) if not empty else {}
  if changed := unit.changed(there, sources):
    more = f" and {len(changed) - 5} more" if changed[5:] else ""
    raise ValueError(
      f"{folder}: changed since this run began: {', '.join(changed[:5])}{more}:"
      " put back what was there, or give another --workdir"
    )
  if unit.load(path, dict) != (now := there | sources):
    disk.write_json(path, now, "the sources")


def note_environment(
  environment: dict, folder: pathlib.Path
) -> tuple[list[dict], list[str]]:
  """Adds the environment to those that wrote here, unless it is among them.

  Returns:
    All environments, and how a new one differs from the last before it; the
    "date" is no difference.
  """

  def changes(one):
    pair = ({**each, "date": None} for each in (one, environment))
    return unit.differences(*pair)

  path = folder / unit.ENVIRONMENTS
  before = unit.load(path, list) or []
  if not all(map(changes, before)):
    return before, []
  environments = [*before, environment]
  disk.write_json(path, environments, "the environment")
  return environments, changes(before[-1]) if before else []
