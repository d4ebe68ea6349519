"""What became of each try to run a unit, kept in its folder.

Two lines a try: as it begins, and as it ends. One that has no second line is
under way, or was killed together with whoever started it. A third one says that
no other try is made.
"""

from __future__ import annotations

import contextlib
import json
import os
import pathlib
import socket
import time
from typing import NamedTuple

from launch import fields
from tv_jax.edge import reading

FILE = "tries.jsonl"
# Told to end: no fault of the unit's.
STOPPED = 143
# Of a try that begins; kinds as `records.faults` reads them.
_BEGIN = {
  "id": str,
  "begin": (int, float),
  "host": str,
  "pid": int,
  "devices": (str, type(None)),
  "answers": int,
}


class Try(NamedTuple):
  """A try.

  Attributes:
    id: Of the unit.
    begin: Seconds since the epoch.
    host: Where.
    pid: Of the process that started it and waits for it.
    devices: CUDA_VISIBLE_DEVICES; None where it is not set.
    answers: That were there before.
    end: Seconds since the epoch; None: it has not, or nobody is left to say.
    status: The exit status, as of `Popen`.
    given_up: Whether no further one is made, as too many went wrong.
  """

  id: str
  begin: float
  host: str
  pid: int
  devices: str | None
  answers: int
  end: float | None = None
  status: int | None = None
  given_up: bool = False

  @property
  def alive(self) -> bool:
    """Whether it is under way, as far as can be seen from this host."""
    if self.end is not None or self.given_up:
      return False
    if self.host != socket.gethostname():
      return True
    try:
      os.kill(self.pid, 0)
    except (ProcessLookupError, OverflowError):
      return False
    except PermissionError:
      pass  # another user's
    return True


def begin(folder: pathlib.Path, id: str, answers: int, devices) -> None:
  """Notes that a try begins."""
  started = Try(
    id, time.time(), socket.gethostname(), os.getpid(), devices, answers
  )
  _append(folder, {name: getattr(started, name) for name in _BEGIN})


def end(folder: pathlib.Path, status: int) -> None:
  """Notes that it has ended."""
  _append(folder, {"end": time.time(), "status": status})


def give_up(folder: pathlib.Path) -> None:
  """Notes of the newest, if there is one, that it was the last."""
  if last(folder):
    _append(folder, {"given_up": True})


def read(folder: pathlib.Path) -> list[Try]:
  """All tries, the oldest first; a torn line is left out.

  Raises:
    ValueError: The file is none of lines.
  """
  path, found = folder / FILE, []
  for line in reading.text(path).splitlines() if path.exists() else ():
    with contextlib.suppress(ValueError):
      own = fields.of(line, {}, FILE)
      if "begin" in own:
        own = fields.of(line, _BEGIN, FILE)
        found.append(Try(**{name: own[name] for name in _BEGIN}))
      elif found:
        found[-1] = found[-1]._replace(**own)
  return found


def last(folder: pathlib.Path) -> Try | None:
  """The newest."""
  return (read(folder) or [None])[-1]


def _append(folder, own):
  """One write; after a torn line, on a line of its own."""
  with (folder / FILE).open("ab+", buffering=0) as file:
    torn = file.tell() and _last_byte(file) != b"\n"
    file.write(b"\n" * bool(torn) + json.dumps(own).encode() + b"\n")


def _last_byte(file) -> bytes:
  file.seek(-1, os.SEEK_END)
  return file.read()
