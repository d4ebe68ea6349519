"""Runs experiments unit by unit somewhere, and makes their tables.

  python -m launch --experiments=temperature
  python -m launch --experiments=all --config=configs/llama3_1b_8b.py \
    --backend=slurm --sbatch="--time=12:00:00"

A unit is a run of `tv_jax.main`: a pair of models and a shard of an
experiment's grid, in a separate folder. After a stop the same command continues
with the unfinished units. Backends: `here`, one unit after the other; `ray`, on
all GPUs of this machine or a cluster; `slurm`, as a job array; `status` prints
the progress of each unit. With `--dry_run` the commands and scripts are
printed, and nothing starts.
"""

from __future__ import annotations

import pathlib
import shlex
import subprocess
import sys
import time
from collections.abc import Sequence

from absl import flags

from experiments.experiment import NAMES, find
from launch import on_ray, on_slurm
from launch.units import Unit, expand
from tv_jax.io import cli, config_flag

_EXPERIMENTS = flags.DEFINE_spaceseplist(
  "experiments",
  None,
  f"Experiments: {', '.join(NAMES)}; all; or module:name.",
  comma_compat=True,
  required=True,
)
_BACKEND = flags.DEFINE_enum(
  "backend",
  "here",
  ("here", "ray", "slurm", "status"),
  "Where to run; status: print the progress of each unit.",
)
_DRY_RUN = flags.DEFINE_bool(
  "dry_run", False, "Print what would be run or submitted, and start nothing."
)
_WORKDIR = flags.DEFINE_string(
  "workdir", "runs/experiments", "The folder of all units."
)
_GPUS = flags.DEFINE_integer(
  "gpus_per_unit",
  None,
  "Number of GPUs that share a unit's target; by default the config's"
  " models.devices. 0: units run on CPUs.",
  lower_bound=0,
)
_SMOKE = flags.DEFINE_bool(
  "smoke", False, "A minimal run that shows that all works."
)
_ADDRESS = flags.DEFINE_string(
  "address",
  None,
  "Address of a Ray cluster, or auto. Default: Ray is started here.",
)
_CPUS = flags.DEFINE_float(
  "cpus_per_unit", 1, "CPUs of each unit, with ray.", lower_bound=0
)
_LOCAL_GPUS = flags.DEFINE_integer(
  "gpus", None, "Number of this machine's GPUs, if Ray cannot detect them."
)
_PARALLEL = flags.DEFINE_integer(
  "max_parallel", None, "Units at once, with slurm.", lower_bound=1
)
_SBATCH = flags.DEFINE_string(
  "sbatch", "", 'Options of sbatch: "--time=12:00:00 --partition=gpu".'
)
config_flag.define()


def main() -> int:
  """Runs the units; returns 1 if one is not done, or a table not made."""
  chosen, workdir = _EXPERIMENTS.value, pathlib.Path(_WORKDIR.value).absolute()
  if chosen == ["all"]:
    chosen = [*NAMES]
  units = []
  for experiment in map(find, chosen):
    options = {"smoke": _SMOKE.value, "gpus": _GPUS.value}
    units += expand(experiment, sys.argv, workdir, **options)
  if _BACKEND.value == "status":
    print("\n".join(unit.progress for unit in units))
    return int(any(unit.state != "done" for unit in units))
  import jax

  # The check for finished units imports jax; the units need the devices.
  jax.config.update("jax_platforms", "cpu")
  rest = [unit for unit in units if not unit.done]
  dry = _DRY_RUN.value
  prefix = "# " if dry else ""
  print(f"{prefix}{len(units) - len(rest)} of {len(units)} units are done")
  run = [sys.executable, "-m", "experiments"]
  render = ["--render", f"--workdir={workdir}"]
  if _BACKEND.value == "slurm":
    tables = [*run, *chosen, *render]
    jobs = on_slurm.jobs(rest, workdir, tables, _PARALLEL.value, _SBATCH.value)
    if dry:
      print(*jobs, sep="\n")
    else:
      on_slurm.submit(jobs, rest, workdir)
    return 0
  if dry:
    for unit in rest:
      print(shlex.join(["python", *unit.command[1:]]))
    return 0
  if _BACKEND.value == "ray" and rest:
    failed = on_ray.run(rest, _ADDRESS.value, _CPUS.value, _LOCAL_GPUS.value)
  else:
    failed = _run_here(rest)
  for unit in failed:
    print(f"FAILED: {unit.progress}", file=sys.stderr)
  # Without a finished unit an experiment has no tables.
  done = {unit.name.split("/")[0] for unit in units if unit not in failed}
  ready = [name for name in chosen if find(name).name in done]
  status = subprocess.run([*run, *ready, *render]).returncode if ready else 0
  return int(bool(failed)) or status


def _run_here(units: Sequence[Unit]) -> list[Unit]:
  """Runs units one after the other, and returns those that failed."""
  failed = []
  for i, unit in enumerate(units, 1):
    print(f"{i}/{len(units)} {unit.name}", flush=True)
    begin = time.monotonic()
    unit.folder.mkdir(parents=True, exist_ok=True)
    with unit.log.open("ab") as log:
      status = subprocess.run(unit.command, stdout=log, stderr=log).returncode
    print(f"{unit.progress}, {time.monotonic() - begin:.0f} s", flush=True)
    if status:
      failed.append(unit)
  return failed


if __name__ == "__main__":
  cli.run("launch", main, config_flag.parse)
