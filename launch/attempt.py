"""How a unit is run, whoever decides when and where: a child process."""

from __future__ import annotations

import fcntl
import os
import signal
import subprocess
import time
from collections.abc import Callable, Mapping

from launch import tries
from launch.units import Unit
from tv_jax.edge import cli

# What no second try helps: of `tv_jax.main`, every answer failed, or there is a
# line that says what is to be mended.
HOPELESS = (1, 2)
# Of a child that lost its parent and closes its store; a pre-empted one has as
# long.
_GRACE = 120.0


def once(
  unit: Unit,
  *,
  cwd: str | None = None,
  environment: Mapping[str, str] | None = None,
) -> int:
  """Runs a unit, or goes on with it; the exit status, as of `Popen`.

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


def until_done(unit: Unit, retries: int, say: Callable[[str], None]) -> bool:
  """Runs a unit, again if that can help; whether it is done in the end."""
  for left in range(retries, -1, -1):
    begin = time.monotonic()
    status = once(unit)
    took = time.monotonic() - begin
    say(ended(unit, status, took))
    if succeeded(unit, status):
      return True
    if status in HOPELESS:
      return False
    if left:
      say(f"{unit.name}: again, {left} tries are left")
  tries.give_up(unit.folder)
  return False


def succeeded(unit: Unit, status: int) -> bool:
  """Whether a try ended well."""
  return status == 0 and unit.finished


def ended(unit: Unit, status: int, took: float) -> str:
  """A line about a try."""
  if succeeded(unit, status):
    return f"{unit.name}: done, {unit.answers} answers, {took:.0f} s"
  how = f"status {status}" if status >= 0 else signal.Signals(-status).name
  return f"{unit.name}: FAILED ({how}, {took:.0f} s): {unit.last_words}"


def _wait_for_the_last(unit) -> None:
  """Until nobody writes in the folder, or for as long as an end may take.

  A child of a launcher that was killed hears of it, and closes its store.
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
