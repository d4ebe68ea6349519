"""Units as one job array of SLURM, and a job after it that makes the tables.

SLURM starts a unit again when its machine is lost or it is pre-empted. After a
time limit, submit again. All jobs of a folder have the same name, and SLURM
starts a job after all earlier jobs of its name have ended (singleton). So a
second submission can be made at any time, and continues the first. The elements
of an array are one job in this sense, and run side by side.
"""

from __future__ import annotations

import os
import pathlib
import shlex
import subprocess
from collections.abc import Sequence
from typing import NamedTuple

from launch.units import Unit

_NOTICE = 120  # a run is stopped this many seconds before the time limit


class Job(NamedTuple):
  """A job for SLURM."""

  command: list[str]  # sbatch and its options
  script: str  # read by sbatch from standard input

  def __str__(self) -> str:
    """Returns the shell command that would submit it."""
    return f"{shlex.join(self.command)} <<'EOF'\n{self.script}EOF"


def jobs(
  units: Sequence[Unit],
  workdir: pathlib.Path,
  tables: Sequence[str],
  max_parallel: int | None,
  options: str,
) -> list[Job]:
  """Returns the job array of all units, and the job that makes the tables.

  Args:
    units: The units to run; without any, only the tables are made.
    workdir: The sweep's folder, absolute.
    tables: The command that makes the tables.
    max_parallel: Maximum number of units at once; None: no limit.
    options: Further options of sbatch.
  """
  # SLURM reads a % in a file's name as the beginning of a pattern.
  folder = str(workdir).replace("%", "%%")

  def sbatch(output: str, *more: str) -> list[str]:
    return [
      "sbatch",
      f"--job-name=tv_jax {workdir}",
      "--dependency=singleton",
      f"--chdir={os.getcwd()}",
      "--open-mode=append",
      f"--output={folder}/{output}",
      *more,
      *shlex.split(options),
    ]

  result = []
  if units:
    parallel = f"%{max_parallel}" if max_parallel else ""
    array = [f"--array=0-{len(units) - 1}{parallel}", "--requeue"]
    array.append(f"--signal=B:TERM@{_NOTICE}")
    if gpus := max(unit.gpus for unit in units):
      array.append(f"--gres=gpu:{gpus}")
    result.append(Job(sbatch("slurm-units.out", *array), script(units)))
  text = f"#!/bin/bash\nexec {shlex.join(tables)}\n"
  return [*result, Job(sbatch("slurm-tables.out"), text)]


def script(units: Sequence[Unit]) -> str:
  """Returns the array's script: each element becomes one unit's run."""
  lines = ["#!/bin/bash", "case $SLURM_ARRAY_TASK_ID in"]
  for i, unit in enumerate(units):
    log = shlex.quote(str(unit.log))
    # In the shell's place, so that SLURM's signal reaches the run.
    lines.append(f"{i}) exec {shlex.join(unit.command)} >> {log} 2>&1 ;;")
  return "\n".join([*lines, "esac", ""])


def submit(
  jobs: Sequence[Job], units: Sequence[Unit], workdir: pathlib.Path
) -> None:
  """Makes the folders of a sweep and its units, and submits its jobs."""
  for folder in (workdir, *(unit.folder for unit in units)):
    folder.mkdir(parents=True, exist_ok=True)
  for job in jobs:
    print(shlex.join(job.command), flush=True)
    # SLURM prints the job's number, or an error.
    subprocess.run(job.command, input=job.script, text=True, check=True)
