"""Units as one job array of SLURM, and a job after it that makes the tables.

SLURM starts a unit again when its machine is lost or it is pre-empted. After a
time limit, submit again. All jobs of a folder have one name, and SLURM starts
none before the earlier ones of that name have ended (singleton): so a second
submission continues the first, whenever it is given.
"""

from __future__ import annotations

import os
import pathlib
import shlex
import subprocess
from collections.abc import Sequence

from launch.units import Unit

_NOTICE = 120  # seconds before the time limit, at which a run is stopped


def submit(
  units: Sequence[Unit],
  workdir: pathlib.Path,
  tables: Sequence[str],
  max_parallel: int | None,
  more: str,
) -> None:
  """Submits units, and the command that makes the tables.

  Args:
    units: What is to run.
    workdir: Of the sweep, absolute.
    tables: The command.
    max_parallel: Units at once; None: no limit.
    more: Further options of sbatch.
  """
  workdir.mkdir(parents=True, exist_ok=True)
  sbatch = [
    "sbatch",
    f"--job-name=tv_jax {workdir}",
    "--dependency=singleton",
    f"--chdir={os.getcwd()}",
    "--open-mode=append",
  ]
  # SLURM reads a % in a file's name as the beginning of a pattern.
  folder = str(workdir).replace("%", "%%")
  if units:
    parallel = f"%{max_parallel}" if max_parallel else ""
    array = [
      f"--array=0-{len(units) - 1}{parallel}",
      f"--output={folder}/slurm-units.out",
      "--requeue",
      f"--signal=B:TERM@{_NOTICE}",
    ]
    if gpus := max(unit.gpus for unit in units):
      array.append(f"--gres=gpu:{gpus}")
    _submit([*sbatch, *array, *shlex.split(more)], script(units))
  text = f"#!/bin/bash\nexec {shlex.join(tables)}\n"
  output = f"--output={folder}/slurm-tables.out"
  _submit([*sbatch, output, *shlex.split(more)], text)


def script(units: Sequence[Unit]) -> str:
  """Returns the array's script: each element becomes one unit's run."""
  lines = ["#!/bin/bash", "case $SLURM_ARRAY_TASK_ID in"]
  for i, unit in enumerate(units):
    unit.folder.mkdir(parents=True, exist_ok=True)
    log = shlex.quote(str(unit.log))
    # In the shell's place, so that SLURM's signal reaches the run.
    lines.append(f"{i}) exec {shlex.join(unit.command)} >> {log} 2>&1 ;;")
  return "\n".join([*lines, "esac", ""])


def _submit(command: list[str], text: str) -> None:
  """Submits a script; SLURM prints the job's number, or why not."""
  print(shlex.join(command), flush=True)
  subprocess.run(command, input=text, text=True, check=True)
