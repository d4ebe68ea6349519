"""A file that one process appends records to: a line each, on disk at once."""

from __future__ import annotations

import contextlib
import json
import os
import pathlib
from collections.abc import Callable
from typing import Protocol

from tv_jax.edge import disk, reading


class Record(Protocol):
  """What a line is made of: a key, which no other has, and its JSON value."""

  @property
  def key(self) -> object:
    """What no other record of the file has."""

  @property
  def line(self) -> dict:
    """The JSON value."""
    ...


class Lines:
  """A file of records, open for appending; make it with `open`.

  Attributes:
    path: The file.
    found: The records by key, in the file's order.
  """

  def __init__(self, path, of, descriptor, found, size):
    """Not to be called: `open` makes it."""
    self.path: pathlib.Path = path
    self.found: dict = found
    self._of, self._descriptor, self._size = of, descriptor, size

  @classmethod
  def open(
    cls,
    path: pathlib.Path,
    of: Callable[[dict], Record],
    resources: contextlib.ExitStack,
  ) -> Lines:
    """Opens the file, or makes it, and cuts off a last line that is torn.

    Args:
      path: The file.
      of: A record of its JSON value; ValueError if it is none.
      resources: Closes the file.

    Raises:
      ValueError: A line is damaged.
      StoreError: The file cannot be written to.
    """
    if os.path.lexists(path):
      reading.regular(path)
    with disk.explained(f"{path} cannot be opened"):
      flags = os.O_RDWR | os.O_APPEND | os.O_CREAT
      descriptor = os.open(path, flags, 0o666)
      resources.callback(os.close, descriptor)
      disk.sync_folder(path.parent)
      data = path.read_bytes()
    found, size = parse(data, path, of)
    if size < len(data):
      with disk.explained(f"{path}: its torn last line cannot be cut off"):
        _cut(descriptor, size)
    return cls(path, of, descriptor, found, size)

  def append(
    self, record: Record, begin: Callable[[], None] = lambda: None
  ) -> None:
    """Writes a record; on return it is on the disk.

    Args:
      record: Of whatever can be JSON: a reader finds lists for tuples.
      begin: Called when nothing but the disk can keep it from being written.

    Raises:
      ValueError: It is there already, or is no JSON.
      StoreError: It could not be written. All records before it are safe.
    """
    key, what = record.key, str(record.key)
    if key in self.found:
      raise ValueError(f"{self.path.parent}: {what} is there already")
    line = disk.to_bytes(record.line, what)
    kept = self._of(disk.from_bytes(line))
    self._check()
    try:
      begin()
      # One write. A full disk takes a part of it; asking again tells why.
      left = line
      while left:
        left = left[os.write(self._descriptor, left) :]
      os.fsync(self._descriptor)
    except OSError as error:
      with contextlib.suppress(OSError):
        _cut(self._descriptor, self._size)
      raise disk.StoreError(
        f"{self.path}: cannot write {what}: {error.strerror}; the"
        f" {len(self.found)} items before it are safe, and the same command"
        " continues after them"
      ) from error
    self._size += len(line)
    self.found[key] = kept

  def _check(self):
    """Nobody else may have changed the file."""
    with disk.explained(f"{self.path} is gone"):
      there = self.path.stat()
    own = os.fstat(self._descriptor)
    if not os.path.samestat(there, own) or own.st_size != self._size:
      raise disk.StoreError(
        f"{self.path} is not as this process left it: give the same command"
        " again"
      )


def parse(
  data: bytes, path: pathlib.Path, of: Callable[[dict], Record]
) -> tuple[dict, int]:
  """Returns the records in a file's bytes, but for a last line that is torn.

  A crash tears the last line only. It then lacks its newline or, when the
  machine went down as well, is as long as it should be and holds zeros.

  Args:
    data: The file's bytes.
    path: The file, for the errors.
    of: As in `Lines.open`.

  Returns:
    The records by key, in the file's order, and the bytes that they take.

  Raises:
    ValueError: A line that a crash cannot explain.
  """
  found, numbers, size = {}, {}, 0
  # Only b"\n" ends a line: a string may hold other separators, like U+2028.
  *lines, rest = data.split(b"\n")
  for number, line in enumerate(lines, 1):
    wrong = "no JSON: "
    try:
      value = disk.from_bytes(line)
      wrong = ""
      record = of(value)
    except ValueError as error:
      # What is JSON as far as it goes, but cannot be read, was not torn.
      torn = isinstance(error, json.JSONDecodeError | UnicodeDecodeError)
      if wrong and torn and number == len(lines) and not rest:
        break
      raise ValueError(
        f"{path}, line {number}: {wrong}{error}; remove the line, and its item"
        " is made again"
      ) from error
    key = record.key
    if key in found:
      raise ValueError(
        f"{path}, lines {numbers[key]} and {number}: the same {key}; remove one"
        " of them"
      )
    found[key], numbers[key] = record, number
    size += len(line) + 1
  return found, size


def _cut(descriptor: int, size: int) -> None:
  """Durably cuts a file to so many bytes."""
  os.ftruncate(descriptor, size)
  os.fsync(descriptor)
