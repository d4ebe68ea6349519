"""Units one after the other, each a child process of this one.

What a unit is up to is in its folder; here is only what of it is under way.
"""

from __future__ import annotations

import signal
import subprocess
import time
from collections.abc import Callable, Sequence

from launch.units import Unit
from tv_jax import cli

# What no second try helps: of `tv_jax.main`, every answer failed, or there is a
# line that says what is to be mended.
HOPELESS = (1, 2)


def run(
  units: Sequence[Unit], *, retries: int, say: Callable[[str], None]
) -> list[Unit]:
  """Runs what is not done.

  Args:
    units: In their order.
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
    if not _try(unit, retries, say):
      failed.append(unit)
  return failed


def _try(unit, retries, say) -> bool:
  """Whether the unit is done in the end."""
  for attempt in range(retries + 1):
    begin = time.monotonic()
    status = _child(unit)
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


def _child(unit) -> int:
  """The exit status of one try."""
  unit.folder.mkdir(parents=True, exist_ok=True)
  with unit.log.open("ab") as log:
    return cli.run_child(
      unit.command,
      stdin=subprocess.DEVNULL,
      stdout=log,
      stderr=subprocess.STDOUT,
    )
