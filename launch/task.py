"""An element of a SLURM array: `python -m launch.task SWEEP INDEX`.

Told to end, by its time limit or for another job, it closes the store and asks
SLURM to start it again later. It does not if it was cancelled, or if it was
started often enough without one answer more.
"""

from __future__ import annotations

import os
import pathlib
import sys

from launch import attempt, slurm, sweep, tries
from launch.sweep import Sweep
from launch.units import Unit
from tv_jax.edge import cli


def main(heard: cli.Heard, arguments: list[str]) -> int:
  """Runs the unit; returns 1 if it failed."""
  if len(arguments) != 2 or not arguments[1].isdigit():
    raise ValueError("give the folder of a sweep, and the number of a unit")
  found = sweep.read(pathlib.Path(arguments[0]))
  if int(arguments[1]) >= len(found.units):
    raise ValueError(f"{found.folder} has {len(found.units)} units, from 0")
  unit = found.units[int(arguments[1])]
  try:
    return int(not attempt.until_done(unit, found.told.retries, attempt.say))
  except KeyboardInterrupt:
    attempt.say(f"{unit.name}: {heard.word()}, {requeued(found, unit)}")
    raise


def requeued(found: Sweep, unit: Unit) -> str:
  """Queues a unit that was told to end again; returns what becomes of it."""
  if (found.folder / sweep.CANCELLED).exists():
    return "cancelled"
  # Not SLURM_JOB_ID: that of an array's last element is the whole array's.
  job, element = (
    os.environ.get(f"SLURM_ARRAY_{name}_ID") for name in ("JOB", "TASK")
  )
  own = f"{job}_{element}"
  if not (job and element) or slurm.state(own) != "RUNNING":
    return "not started again"
  last = tries.last(unit.folder)
  moved = last is not None and unit.answers > last.answers
  count = int(os.environ.get("SLURM_RESTART_COUNT", 0))
  if not moved and count >= found.told.retries:
    tries.give_up(unit.folder)
    return "FAILED: its time ends before an answer"
  return "queued again" if slurm.requeue(own) else "not queued again"


if __name__ == "__main__":
  sys.path.insert(0, os.getcwd())
  cli.run("launch.task", main)
