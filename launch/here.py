"""Units one after the other, each a child process of this one."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from launch import attempt
from launch.units import Unit


def run(
  units: Sequence[Unit], *, retries: int, say: Callable[[str], None]
) -> list[Unit]:
  """Runs units.

  Args:
    units: In their order.
    retries: Of a unit that was killed, or crashed.
    say: Told what happens, a line at a time.

  Returns:
    The units that failed; the others go on without them.
  """
  failed = []
  for i, unit in enumerate(units, 1):
    say(f"{i}/{len(units)} {unit.name}")
    if not attempt.until_done(unit, retries, say):
      failed.append(unit)
  return failed
