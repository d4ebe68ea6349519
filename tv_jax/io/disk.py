"""Atomic writes of files, and locks of folders."""

from __future__ import annotations

import contextlib
import errno
import fcntl
import json
import os
import pathlib
import platform
import socket
from collections.abc import Iterator
from typing import BinaryIO


class StoreError(OSError):
  """A folder is locked by another process, or a write has failed."""


def cache_folder() -> pathlib.Path:
  """Returns this machine's folder in the user's cache; it may not exist yet."""
  home = os.environ.get("XDG_CACHE_HOME") or "~/.cache"
  return pathlib.Path(home).expanduser() / "tv_jax" / platform.node()


def to_bytes(value, **options) -> bytes:
  """Returns a value as a line of JSON in UTF-8; NaN raises a ValueError."""
  text = json.dumps(value, ensure_ascii=False, allow_nan=False, **options)
  return _encode(text + "\n")


def round_trip(value):
  """Returns the value as it is read back: tuples become lists."""
  return json.loads(to_bytes(value))


def write_json(path: pathlib.Path, value) -> None:
  """Writes a value, indented and with sorted keys, as `write_atomic` does."""
  with atomic_open(path) as file:
    file.write(to_bytes(value, indent=2, sort_keys=True))


def write_atomic(path: str | os.PathLike, text: str) -> None:
  """Writes or replaces a file durably and atomically."""
  with atomic_open(path) as file:
    file.write(_encode(text))


@contextlib.contextmanager
def atomic_open(path: str | os.PathLike) -> Iterator[BinaryIO]:
  """Opens a binary file that appears, or is replaced, once it is complete.

  After an error the old file is unchanged.
  """
  path = pathlib.Path(path)
  partial = path.with_name(f".{path.name}.{os.getpid()}.partial")
  try:
    with partial.open("wb") as file:
      yield file
      file.flush()
      os.fsync(file.fileno())
    partial.replace(path)
  except OSError as error:
    error.filename = error.filename or str(path)  # a full disk names none
    raise
  finally:
    partial.unlink(missing_ok=True)
  sync_folder(path.parent)


def clear(folder: pathlib.Path) -> None:
  """Removes partial files of killed processes; call it under the lock."""
  for partial in folder.glob(".*.partial"):
    partial.unlink(missing_ok=True)


def sync_folder(folder: pathlib.Path) -> None:
  """Makes new, replaced and removed names in a folder durable."""
  descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
  try:
    os.fsync(descriptor)
  except OSError as error:
    if error.errno != errno.EINVAL:  # some network file systems cannot
      raise
  finally:
    os.close(descriptor)


def apply_umask(path: pathlib.Path) -> None:
  """Gives a file the usual mode; safetensors lets only the owner read."""
  mask = os.umask(0)
  os.umask(mask)
  path.chmod(0o666 & ~mask)


def lock(
  folder: pathlib.Path,
  resources: contextlib.ExitStack,
  name: str = "lock",
  remedy: str = "wait for it, or give another --workdir",
) -> None:
  """Takes a folder's lock; the kernel releases it when the process ends.

  Args:
    folder: The folder to lock.
    resources: Releases the lock.
    name: The name of the lock's file.
    remedy: The advice in the error.

  Raises:
    StoreError: Another process holds the lock.
  """
  # Opened without truncation: the file has the holder's name.
  file = resources.enter_context((folder / name).open("a+"))
  try:
    fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
  except BlockingIOError:
    file.seek(0)
    holder = file.read().strip() or "another process"
    raise StoreError(
      f"{folder} is being written by {holder}: {remedy}"
    ) from None
  file.truncate(0)
  file.write(f"process {os.getpid()} on host {socket.gethostname()}\n")
  file.flush()


def _encode(text: str) -> bytes:
  # Half a surrogate pair has no UTF-8. Its backslash form is JSON's own escape.
  return text.encode("utf-8", "backslashreplace")
