"""Tries to run a unit, kept in its folder: when, where, and how each ended.

A try has two lines: as it begins, and as it ends. One without the second is
under way, or was killed together with whoever started it. A third line says
that no other try is made.
"""

from __future__ import annotations

import contextlib
import json
import os
import pathlib
import socket
import time
from typing import NamedTuple

from tv_jax.edge import checks, reading

FILE = "tries.jsonl"
# The status of a try that was told to end: no fault of the unit's.
STOPPED = 143
_BEGIN = checks.fields(
  {
    "id": checks.text,
    "begin": checks.number(),
    "host": checks.text,
    "pid": checks.integer(),
    "devices": checks.optional(checks.text),
    "answers": checks.integer(),
  }
)
_END = checks.fields(
  {}, end=checks.number(), status=checks.integer(), given_up=checks.boolean
)


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
    status: The exit status, as `Popen` gives it.
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


def begin(
  folder: pathlib.Path, id: str, answers: int, devices: str | None
) -> None:
  """Notes that a try begins."""
  own = {"id": id, "begin": time.time(), "host": socket.gethostname()}
  own |= {"pid": os.getpid(), "devices": devices, "answers": answers}
  _append(folder, own)


def end(folder: pathlib.Path, status: int) -> None:
  """Notes that it has ended."""
  _append(folder, {"end": time.time(), "status": status})


def give_up(folder: pathlib.Path) -> None:
  """Notes that the newest try, if there is one, was the last."""
  if last(folder):
    _append(folder, {"given_up": True})


def read(folder: pathlib.Path) -> list[Try]:
  """Returns all tries, the oldest first; a torn line is left out.

  Raises:
    ValueError: The file is no text.
  """
  path, found = folder / FILE, []
  for line in reading.text(path).splitlines() if path.exists() else ():
    with contextlib.suppress(ValueError):
      own = reading.parse_object(line, FILE)
      if "begin" in own:
        found.append(Try(**checks.read(_BEGIN, own)))
      elif found:
        found[-1] = found[-1]._replace(**checks.read(_END, own))
  return found


def last(folder: pathlib.Path) -> Try | None:
  """Returns the newest try."""
  return (read(folder) or [None])[-1]


def _append(folder, own):
  """Adds a line by one write; after a torn line, on a line of its own."""
  with (folder / FILE).open("ab+", buffering=0) as file:
    torn = False
    if file.tell():
      file.seek(-1, os.SEEK_END)
      torn = file.read() != b"\n"
    file.write(b"\n" * torn + json.dumps(own).encode() + b"\n")
