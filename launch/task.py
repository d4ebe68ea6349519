"""An element of a SLURM array: `python -m launch.task SWEEP INDEX`.

Told to end, by its time limit or for another job, it closes the store and asks
SLURM to start it again later; not if it was cancelled, nor for ever without an
answer more.
"""

from __future__ import annotations

import os
import pathlib
import sys

from launch import attempt, slurm, sweep, tries
from tv_jax.edge import cli


def main(heard, arguments) -> int:
  """Runs the unit; 1 if it failed."""
  if len(arguments) != 2 or not arguments[1].isdigit():
    raise ValueError("give the folder of a sweep, and the number of a unit")
  found = sweep.read(pathlib.Path(arguments[0]))
  if int(arguments[1]) >= len(found.units):
    raise ValueError(f"{found.folder} has {len(found.units)} units, from 0")
  unit = found.units[int(arguments[1])]
  try:
    return int(not attempt.until_done(unit, found.told["retries"], _say))
  except KeyboardInterrupt:
    _say(f"{unit.name}: {heard.word()}, {_requeued(found, unit)}")
    raise


def _requeued(found, unit) -> str:
  """What becomes of a unit that was told to end."""
  if (found.folder / sweep.CANCELLED).exists():
    return "cancelled"
  # Not SLURM_JOB_ID: that of an array's last element is the whole array's.
  own = [os.environ.get(f"SLURM_ARRAY_{name}_ID") for name in ("JOB", "TASK")]
  job = "_".join(own) if all(own) else ""
  if not job or slurm.state(job) != "RUNNING":
    return "not started again"
  last = tries.last(unit.folder)
  moved = last is not None and unit.answers > last.answers
  count = int(os.environ.get("SLURM_RESTART_COUNT", 0))
  if not moved and count >= found.told["retries"]:
    tries.give_up(unit.folder)
    return "FAILED: its time ends before an answer"
  return "queued again" if slurm.requeue(job) else "not queued again"


def _say(line: str) -> None:
  print(line, flush=True)


if __name__ == "__main__":
  sys.path.insert(0, os.getcwd())
  cli.run("launch.task", main)
