"""How a unit is run, whoever decides when and where: a child process."""

from __future__ import annotations

import fcntl
import os
import signal
import subprocess
import time
from collections.abc import Callable, Mapping, Sequence

from launch import tries
from launch.units import Unit
from tv_jax.edge import cli

# No second try helps: every answer failed, or the user has something to mend.
HOPELESS = (1, 2)
# Seconds in which a child that lost its parent closes its store.
_GRACE = 120.0


def say(line: str) -> None:
  """Prints a line at once, wherever the output goes."""
  print(line, flush=True)


def run_all(
  units: Sequence[Unit], retries: int, say: Callable[[str], None]
) -> list[Unit]:
  """Runs units one after the other, and returns those that failed."""
  failed = []
  for i, unit in enumerate(units, 1):
    say(f"{i}/{len(units)} {unit.name}")
    if not until_done(unit, retries, say):
      failed.append(unit)
  return failed


def until_done(unit: Unit, retries: int, say: Callable[[str], None]) -> bool:
  """Runs a unit, again if that can help; returns whether it is done at last."""
  for left in range(retries, -1, -1):
    begin = time.monotonic()
    status = once(unit)
    say(ended(unit, status, time.monotonic() - begin))
    if succeeded(unit, status):
      return True
    if status in HOPELESS:
      return False
    if left:
      say(f"{unit.name}: again, {left} tries are left")
  tries.give_up(unit.folder)
  return False


def once(
  unit: Unit,
  *,
  cwd: str | None = None,
  environment: Mapping[str, str] | None = None,
) -> int:
  """Runs a unit, or continues it; returns the exit status, as `Popen` does.

  Args:
    unit: Which. What it prints is added to its log.
    cwd: Where it is to run; None: here.
    environment: Its variables; None: those of this process.
  """
  environment = os.environ if environment is None else environment
  unit.folder.mkdir(parents=True, exist_ok=True)
  _wait_for_the_last(unit)
  devices = environment.get("CUDA_VISIBLE_DEVICES")
  tries.begin(unit.folder, unit.id, unit.answers, devices)
  status = tries.STOPPED
  try:
    with unit.log.open("ab") as log:
      log.write(f"$ {unit.line}\n".encode())
      log.flush()
      status = cli.run_child(
        unit.command,
        stdin=subprocess.DEVNULL,
        stdout=log,
        stderr=subprocess.STDOUT,
        cwd=cwd,
        env=environment,
      )
  finally:
    tries.end(unit.folder, status)
  return status


def succeeded(unit: Unit, status: int) -> bool:
  """Returns whether a try ended well."""
  return status == 0 and unit.finished


def ended(unit: Unit, status: int, took: float) -> str:
  """Returns a line about a try."""
  if succeeded(unit, status):
    return f"{unit.name}: done, {unit.answers} answers, {took:.0f} s"
  how = f"status {status}" if status >= 0 else signal.Signals(-status).name
  return f"{unit.name}: FAILED ({how}, {took:.0f} s): {unit.last_words}"


def _wait_for_the_last(unit: Unit) -> None:
  """Waits until nobody writes in the folder, or as long as an end may take.

  The child of a launcher that was killed is told so, and closes its store.
  """
  limit = time.monotonic() + _GRACE
  while time.monotonic() < limit:
    try:
      with (unit.folder / "lock").open("rb") as lock:
        fcntl.flock(lock, fcntl.LOCK_SH | fcntl.LOCK_NB)
      return
    except FileNotFoundError:
      return
    except BlockingIOError:
      time.sleep(0.5)
