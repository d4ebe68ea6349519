"""The one process that writes a unit."""

import contextlib
import os
import pathlib

from tv_jax.edge import disk
from tv_jax.runs.records import Answer, Key
from tv_jax.runs.store import opening, unit
from tv_jax.runs.store.lines import Lines


class Store:
  """A unit's folder, held for writing; use it as a context.

  Attributes:
    folder: The folder.
    environments: All environments that wrote here, this one included.
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
    opening.make(folder)
    with contextlib.ExitStack() as resources:
      opening.lock(folder, resources)
      disk.clear_dead(folder, own=unit.OWN)
      opening.keep_config(config, folder)
      self.environments, self.environment_changes = opening.note_environment(
        environment, folder
      )
      self._lines = Lines.open(folder / unit.ITEMS, Answer.of, resources)
      self._resources = resources.pop_all()
    self._closed = False
    self._done = os.path.exists(folder / unit.DONE)

  def __enter__(self):
    """The store itself."""
    return self

  def __exit__(self, *_) -> None:
    """Closes it."""
    self.close()

  def close(self) -> None:
    """Gives the lock back; twice is harmless."""
    self._closed = True
    self._resources.close()

  def __contains__(self, key: Key) -> bool:
    """Whether the item is there."""
    return key in self._lines.found

  def __len__(self) -> int:
    """How many items are there."""
    return len(self._lines.found)

  def get(self, key: Key) -> Answer | None:
    """The item, or None."""
    return self._lines.found.get(key)

  @property
  def items(self) -> tuple[Answer, ...]:
    """All by rising key, whatever the order they were written in."""
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
    opening.keep_sources(sources, self.folder, empty=not self._lines.found)

  def save_timing(self, timing: dict) -> None:
    """Writes timing.json, all of it; errors as in `append`."""
    self._check_open()
    disk.write_json(self.folder / unit.TIMING, timing, "the timing")

  def expect(self, count: int) -> None:
    """Says how many items there will be, to whoever watches."""
    self._check_open()
    disk.write_atomic(self.folder / unit.COUNT, f"{count}\n")

  def finish(self) -> None:
    """Marks the unit as done; one more item unmarks it."""
    self._check_open()
    disk.write_atomic(self.folder / unit.DONE, "")
    self._done = True

  def _check_open(self):
    if self._closed:
      raise ValueError(f"{self.folder}: the store is closed")

  def _unmark(self):
    if self._done:
      (self.folder / unit.DONE).unlink(missing_ok=True)
      disk.sync_folder(self.folder)
      self._done = False
