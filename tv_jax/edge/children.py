"""Commands that run commands: a child ends when its parent does."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
from collections.abc import Iterable, Sequence

# In the child, before it is the command: on Linux it is to be told with SIGTERM
# once its parent is gone. As a program, for to fork under jax's threads is not
# safe.
_PREPARE = """
import ctypes, os, signal, sys
parent, *command = sys.argv[1:]
if sys.platform == "linux":
  PR_SET_PDEATHSIG = 1
  ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGTERM)
if os.getppid() == int(parent):
  os.execv(command[0], command)
"""

_LOOK_UP = 1.0  # seconds


def run_child(command: Sequence[str], **options) -> int:
  """Runs a command to its end; its exit status, as of `Popen`.

  A signal that this process hears meanwhile is passed on as SIGTERM, and the
  child waited for: it has its own way to end well.

  Args:
    command: The program, by its path, and its arguments.
    **options: Of `Popen`.
  """
  process = start_child(command, **options)
  try:
    return _wait(process)
  except BaseException:
    end_children([process])
    raise


def start_child(command: Sequence[str], **options) -> subprocess.Popen:
  """Starts a command, to be waited for; arguments as of `run_child`."""
  prepare = [sys.executable, "-I", "-S", "-c", _PREPARE, str(os.getpid())]
  # A session of its own: a terminal's Ctrl-C would reach it a second time.
  return subprocess.Popen(
    [*prepare, *command], start_new_session=True, **options
  )


def end_children(processes: Iterable[subprocess.Popen]) -> None:
  """Tells all to end, and waits until they have."""
  processes = [*processes]
  for process in processes:
    process.send_signal(signal.SIGTERM)
  for process in processes:
    _wait(process)


def _wait(process) -> int:
  """Its exit status; looks up every now and then.

  A signal that comes just before the interpreter begins to wait for good is
  heard only when the waiting is over.
  """
  while True:
    with contextlib.suppress(subprocess.TimeoutExpired):
      return process.wait(_LOOK_UP)
