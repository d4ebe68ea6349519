"""Files that are whole or not there, and errors of one line."""

import contextlib
import errno
import fcntl
import functools
import json
import os
import pathlib
import re
import socket
from collections.abc import Iterable

from tv_jax.edge import reading


class StoreError(OSError):
  """What could not be read or written, and why: one line for the user."""


@contextlib.contextmanager
def explained(what: str):
  """Turns an OSError into a StoreError that begins with `what`."""
  try:
    yield
  except OSError as error:
    raise StoreError(f"{what}: {error.strerror or error}") from error


def to_bytes(value, what: str, *, indent: int | None = None) -> bytes:
  """Returns a value as JSON in UTF-8: a line, or indented with sorted keys.

  Raises:
    ValueError: `what` is no JSON; a NaN and an infinity are none.
  """
  try:
    text = json.dumps(
      value,
      ensure_ascii=False,
      allow_nan=False,
      indent=indent,
      sort_keys=indent is not None,
    )
  except (TypeError, ValueError) as error:
    raise ValueError(f"{what} is no JSON: {error}") from error
  return _encode(text + "\n")


def from_bytes(data: bytes):
  """Returns what `to_bytes` was given; ValueError if it is no JSON in UTF-8."""
  return reading.loads(data.decode())


def round_trip(value, what: str):
  """Returns the value as it will be read again: lists for tuples."""
  return from_bytes(to_bytes(value, what))


def write_json(path: pathlib.Path, value, what: str) -> None:
  """Writes a value as `write_atomic` does; errors call it `what`."""
  _write(path, to_bytes(value, what, indent=2))


def write_atomic(path: str | os.PathLike, text: str) -> None:
  """Writes a file durably, or replaces it; nobody ever sees a half of it.

  Raises:
    StoreError: It could not be written; what was there before is as it was.
  """
  _write(path, _encode(text))


def _write(path, data):
  with whole(path) as file:
    file.write(data)


@contextlib.contextmanager
def whole(path: str | os.PathLike):
  """Opens a file to write bytes to: it is there once it is whole; see above."""
  path = pathlib.Path(path)
  partial = path.with_name(_partial(path.name, os.urandom(4).hex()))
  with explained(f"{path} cannot be written"):
    try:
      with partial.open("xb") as file:
        yield file
        file.flush()
        os.fsync(file.fileno())
      partial.replace(path)
    finally:
      partial.unlink(missing_ok=True)
    sync_folder(path.parent)


def readable(path: pathlib.Path) -> None:
  """Gives a file the mode of any new one: safetensors' own lets nobody read."""
  mask = os.umask(0)
  os.umask(mask)
  path.chmod(0o666 & ~mask)


def clear(folder: str | os.PathLike) -> None:
  """Removes what this process has begun to write: to be called as it ends."""
  for partial in pathlib.Path(folder).glob(_partial("*", "*")):
    partial.unlink(missing_ok=True)


def clear_dead(folder: pathlib.Path, own: Iterable[str] = ()) -> None:
  """Removes what processes that were killed had begun to write.

  Args:
    folder: The folder.
    own: Files that nobody else may be writing, wherever whoever began to
      write them was killed. Of others, only what was begun on this host by a
      process that lives no more goes.
  """
  for partial in folder.glob(".*.partial"):
    if found := _PARTIAL.fullmatch(partial.name):
      name, host, pid = found.groups()
      dead = host == _host() and not _lives(int(pid))
      if dead or name in own:
        partial.unlink(missing_ok=True)


_PARTIAL = re.compile(r"\.(.+)\.([^.]+)\.([0-9]+)-[0-9a-f]+\.partial")


def _partial(name, which):
  """Returns the name of a file of this process that is not whole yet."""
  return f".{name}.{_host()}.{os.getpid()}-{which}.partial"


@functools.cache
def _host():
  """Returns the host, or the container, in which a process's number counts."""
  try:
    space = os.readlink("/proc/self/ns/pid")
  except OSError:  # not a Linux
    space = ""
  name = f"{socket.gethostname()}-{''.join(filter(str.isdigit, space))}"
  return re.sub("[^A-Za-z0-9-]", "-", name)


def _lives(pid):
  try:
    os.kill(pid, 0)
  except ProcessLookupError:
    return False
  except OSError:  # it is another user's
    return True
  return True


def sync_folder(folder: pathlib.Path) -> None:
  """Makes the names in a folder durable: new, replaced and removed ones."""
  descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
  try:
    os.fsync(descriptor)
  except OSError as error:
    if error.errno != errno.EINVAL:  # some network file systems have no such
      raise
  finally:
    os.close(descriptor)


def _encode(text):
  # Half a surrogate pair has no UTF-8. Its backslash form is JSON's own escape.
  return text.encode("utf-8", "backslashreplace")


def lock(
  folder: pathlib.Path,
  resources: contextlib.ExitStack,
  name: str = "lock",
  remedy: str = "wait for it, or give another --workdir",
) -> None:
  """Takes a folder's lock; the kernel gives it back when the process ends.

  Args:
    folder: What is locked.
    resources: Gives the lock back.
    name: The lock's file.
    remedy: What whoever does not get it is told to do.

  Raises:
    StoreError: Another process has it; or the folder cannot be written in.
  """
  with explained(f"{folder} cannot be written in"):
    # Not emptied by opening it: another holder's name is in it.
    file = resources.enter_context((folder / name).open("ab+", buffering=0))
    try:
      fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
      file.seek(0)
      holder = _holder(file.read())
    else:
      file.truncate(0)
      own = {"host": socket.gethostname(), "pid": os.getpid()}
      file.write(to_bytes(own, "the holder"))
      return
  raise StoreError(f"{folder} is being written by {holder}: {remedy}")


def _holder(data):
  try:
    own = from_bytes(data)
    return f"process {own['pid']} on host {own['host']}"
  except (ValueError, TypeError, KeyError):  # it is about to write its name
    return "another process"
