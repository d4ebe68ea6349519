"""Units one after the other, each a child process of this one.

What a unit is up to is in its folder; here is only what of it is under way. A
unit ends with this process, however that ends: it is told of Ctrl-C and the
like, and after a SIGKILL the kernel tells it.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Sequence

from launch.units import Unit
from tv_jax import cli

# What a user has to mend, and what no second try helps: of `tv_jax.main`, every
# answer failed, or there is one line that says what is wrong.
HOPELESS = (1, 2)
# In the child, before it is the unit: on Linux it is to be told with SIGTERM
# once its parent is gone. As a program, for to fork under jax's threads is not
# safe, which some experiments start.
_PREPARE = [
  sys.executable,
  "-I",
  "-S",
  "-c",
  """
import ctypes, os, signal, sys
parent, *command = sys.argv[1:]
if sys.platform == "linux":
  PR_SET_PDEATHSIG = 1
  ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGTERM)
if os.getppid() == int(parent):
  os.execv(command[0], command)
""",
]


def run(
  units: Sequence[Unit],
  heard: cli.Heard,
  *,
  retries: int,
  say: Callable[[str], None],
) -> list[Unit]:
  """Runs what is not done.

  Args:
    units: In their order.
    heard: What is heard of signals.
    retries: Of a unit that was killed, or crashed.
    say: Told what happens, a line at a time.

  Returns:
    The units that failed; the others go on without them.
  """
  left = [unit for unit in units if not unit.done]
  if len(left) < len(units):
    say(f"{len(units) - len(left)} of {len(units)} units are done")
  failed = []
  for i, unit in enumerate(left, 1):
    say(f"{i}/{len(left)} {unit.name}")
    if not _try(unit, heard, retries, say):
      failed.append(unit)
  return failed


def _try(unit, heard, retries, say) -> bool:
  """Whether the unit is done in the end."""
  for attempt in range(retries + 1):
    begin = time.monotonic()
    status = _child(unit, heard)
    took = f"{time.monotonic() - begin:.0f} s"
    if status == 0 and unit.done:
      say(f"{unit.name}: done, {unit.answers} answers, {took}")
      return True
    how = f"status {status}" if status >= 0 else signal.Signals(-status).name
    say(f"{unit.name}: FAILED ({how}, {took}): {unit.last_words}")
    if status in HOPELESS:
      return False
    if attempt < retries:
      say(f"{unit.name}: again, {retries - attempt} tries are left")
  return False


def _child(unit, heard) -> int:
  """The exit status of one try."""
  unit.folder.mkdir(parents=True, exist_ok=True)
  with unit.log.open("ab") as log:
    process = subprocess.Popen(
      [*_PREPARE, str(os.getpid()), *unit.command],
      stdin=subprocess.DEVNULL,
      stdout=log,
      stderr=subprocess.STDOUT,
      start_new_session=True,  # a terminal's Ctrl-C is ours to pass on
    )
  try:
    return process.wait()
  except BaseException:
    process.send_signal(signal.SIGTERM)
    process.wait()
    raise
