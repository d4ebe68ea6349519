"""The one process that writes a run's folder."""

import contextlib
import os
import pathlib

from tv_jax.edge import disk, reading
from tv_jax.runs.records import Answer, Key
from tv_jax.runs.store import unit
from tv_jax.runs.store.lines import Lines


class Store:
  """A unit's folder, held for writing; use it as a context.

  Attributes:
    folder: The folder.
    done: Whether the folder is marked as done.
    timed: Whether speed was measured.
    environment_changes: What is new in this environment against the last one
      that wrote here; empty if there is nothing to warn of.
  """

  def __init__(
    self, folder: str | os.PathLike, config: dict, environment: dict
  ):
    """Makes a unit's folder, or continues in it, and holds its lock.

    A last line that a crash has torn is cut off, and files that were never
    whole are removed.

    Args:
      folder: The unit's folder; parents are made too.
      config: What the unit is to hold; it never changes.
      environment: What makes the items: versions, device, "date".

    Raises:
      ValueError: The unit has another config, or a damaged file.
      StoreError: Another process is writing there, or writing is impossible.
    """
    self.folder = folder = pathlib.Path(folder)
    config = disk.round_trip(config, "the config")
    environment = disk.round_trip(environment, "the environment")
    _make(folder)
    with contextlib.ExitStack() as resources:
      disk.lock(folder, resources)
      disk.clear_dead(folder, own=unit.OWN)
      _keep_config(config, folder)
      self.environment_changes = _note_environment(environment, folder)
      self._lines = Lines.open(folder / unit.ITEMS, Answer.of, resources)
      self._resources = resources.pop_all()
    self._closed = False
    self.done = os.path.exists(folder / unit.DONE)
    self.timed = os.path.exists(folder / unit.TIMING)

  def __enter__(self):
    """Returns the store itself."""
    return self

  def __exit__(self, *_) -> None:
    """Closes it."""
    self.close()

  def close(self) -> None:
    """Gives the lock back; twice is harmless."""
    self._closed = True
    self._resources.close()

  def __contains__(self, key: Key) -> bool:
    """Returns whether the item is there."""
    return key in self._lines.found

  def __len__(self) -> int:
    """Returns how many items are there."""
    return len(self._lines.found)

  def __getitem__(self, key: Key) -> Answer:
    """Returns the item; KeyError if it is not there."""
    return self._lines.found[key]

  @property
  def items(self) -> tuple[Answer, ...]:
    """Returns all by rising key, whatever the order they were written in."""
    return unit.in_order(self._lines.found)

  def append(self, answer: Answer) -> None:
    """Writes an item; on return it is on the disk, with lists for tuples.

    There is no writing of several at once: a crash could then tear more than
    the last line, and a write costs nothing next to making an item.

    Raises:
      ValueError: It is there already, or is no JSON.
      StoreError: It could not be written. All items before it are safe.
    """
    self._check_open()
    self._lines.append(answer, self._unmark)

  def keep_sources(self, sources: dict[str, str]) -> None:
    """Keeps what items are made of: a hash by name, "group/name" or "group".

    Raises:
      ValueError: Items are there, and were made of something else.
      StoreError: It could not be written.
    """
    self._check_open()
    path = self.folder / unit.SOURCES
    there = (unit.load(path, dict) or {}) if self._lines.found else {}
    if changed := unit.changed(there, sources):
      raise ValueError(
        f"{self.folder}: changed since this run began:"
        f" {reading.listed(changed)}: put back what was there, or give another"
        " --workdir"
      )
    if unit.load(path, dict) != (now := there | sources):
      disk.write_json(path, now, "the sources")

  def save_timing(self, timing: dict) -> None:
    """Writes timing.json, all of it; errors as in `append`."""
    self._check_open()
    disk.write_json(self.folder / unit.TIMING, timing, "the timing")
    self.timed = True

  def meet(self) -> None:
    """Waits for all processes that have this store: there are no others."""

  def expect(self, count: int) -> None:
    """Says how many items there will be, to whoever watches."""
    self._check_open()
    disk.write_atomic(self.folder / unit.COUNT, f"{count}\n")

  def finish(self) -> None:
    """Marks the unit as done; one more item unmarks it."""
    self._check_open()
    disk.write_atomic(self.folder / unit.DONE, "")
    self.done = True

  def _check_open(self):
    if self._closed:
      raise ValueError(f"{self.folder}: the store is closed")

  def _unmark(self):
    if self.done:
      (self.folder / unit.DONE).unlink(missing_ok=True)
      disk.sync_folder(self.folder)
      self.done = False


def _make(folder: pathlib.Path) -> None:
  """Makes the folder and its parents, durably."""
  # What may not be looked at is taken for missing: making it tells why.
  above = folder, *folder.parents
  missing = [one for one in above if not os.path.exists(one)]
  with disk.explained(f"the folder {folder} cannot be made"):
    folder.mkdir(parents=True, exist_ok=True)
    for one in missing:
      disk.sync_folder(one.parent)


def _keep_config(config: dict, folder: pathlib.Path) -> None:
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


def _note_environment(environment: dict, folder: pathlib.Path) -> list[str]:
  """Adds the environment to those that wrote here, unless it is among them.

  Returns:
    How a new one differs from the last before it; the "date" is no difference.
  """

  def changes(one):
    now = {**environment, "date": None}
    return unit.differences({**one, "date": None}, now)

  path = folder / unit.ENVIRONMENTS
  before = unit.load(path, list) or []
  if not all(map(changes, before)):
    return []
  disk.write_json(path, [*before, environment], "the environment")
  return changes(before[-1]) if before else []
