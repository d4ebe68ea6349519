"""Runs an experiment's units somewhere, and makes its tables.

  python -m launch --experiments=temperature
  python -m launch --experiments=all --config=configs/llama3_1b_8b.py \
    --backend=print
  python -m launch status|cancel|resume WORKDIR

A unit is a run of `tv_jax.main`: a pair of models and a shard of the
experiment's grid. What is done already is left out, and after whatever
happened the same command continues. Backends: `here`, one unit after the other;
`ray`, on all GPUs of this machine or a cluster; `slurm`, as job arrays;
`print`, the commands alone. docs/sweeps.md has each from nothing to a table.
"""

from __future__ import annotations

import importlib
import math
import pathlib
import sys

from absl import flags
from ml_collections import config_flags

from experiments import experiment, names
from experiments.experiment import Experiment
from launch import sweep as sweep_lib
from launch import units
from launch.units import Pair
from tv_jax.edge import cli, config_flag

HERE, RAY, SLURM, PRINT = BACKENDS = ("here", "ray", "slurm", "print")

_EXPERIMENTS = cli.define_names(
  "experiments", None, f"Which: {', '.join(names.NAMES)}; or all."
)
_BACKEND = flags.DEFINE_enum("backend", HERE, BACKENDS, "Where to run.")
_WORKDIR = cli.define_folder("workdir", "runs/experiments", "For all units.")
_GPUS = flags.DEFINE_integer(
  "gpus_per_unit",
  None,
  "Over which a unit's target is split; by default the config's"
  " models.devices. 0: units run on CPUs.",
  lower_bound=0,
)
_CPUS = flags.DEFINE_float("cpus_per_unit", 1, "With ray.", lower_bound=0)
flags.register_validator(
  "cpus_per_unit", math.isfinite, "give a number of cores"
)
_PARALLEL = flags.DEFINE_integer(
  "max_parallel", None, "Units at once, with ray and slurm.", lower_bound=1
)
_RETRIES = flags.DEFINE_integer(
  "retries", 2, "Of a unit that was killed, or crashed.", lower_bound=0
)
_ADDRESS = flags.DEFINE_string(
  "address", None, "Of a Ray cluster, or auto; by default Ray is started here."
)
_GPUS_HERE = flags.DEFINE_integer(
  "gpus", None, "Of this machine, where Ray cannot tell.", lower_bound=0
)
_TIME = flags.DEFINE_string("time", None, "SLURM's limit of a job: 12:00:00.")
_PARTITION = flags.DEFINE_string("partition", None, "SLURM's.")
_SBATCH = flags.DEFINE_string(
  "sbatch", "", 'More options of sbatch: "--account=mine --mem=64G".'
)
_SMOKE = flags.DEFINE_bool("smoke", False, "As little as shows that it works.")
_RENDER = flags.DEFINE_bool("render", True, "Whether to make tables at last.")
config_flags.DEFINE_config_file("config", None, config_flag.HELP)


def main(heard: cli.Heard, arguments: list[str]) -> int:
  """Runs the units; returns 1 if one failed, or a table could not be made."""
  if arguments:
    return _verb(arguments)
  wanted = cli.split(_EXPERIMENTS.value)
  if not wanted:
    raise ValueError(f"give --experiments: {', '.join(names.NAMES)}, or all")
  wanted = names.NAMES if wanted == ["all"] else wanted
  experiments = [names.find(one) for one in wanted]
  workdir = pathlib.Path(_WORKDIR.value)
  if _BACKEND.value in (RAY, SLURM):  # other processes have other folders
    workdir = workdir.absolute()
  pairs, found = [], {}
  for one in experiments:  # all is checked before anything runs
    own = _pairs(one)
    pairs += own
    found |= units.expand(one, own, workdir, _SMOKE.value, _GPUS.value)
  with heard.deaf():
    import jax

    # What is finished may read rules. Devices are left to the units.
    jax.config.update("jax_platforms", "cpu")
    importlib.import_module("tv_jax.runs.running")
  if _BACKEND.value == PRINT:
    _print(found)
    return 0
  workdir.mkdir(parents=True, exist_ok=True)
  told = sweep_lib.Told(
    experiments=tuple(wanted),
    arguments=tuple(sys.argv[1:]),
    backend=_BACKEND.value,
    retries=_RETRIES.value,
  )
  sweep = sweep_lib.of(workdir, [*found], told)
  with sweep_lib.held(sweep):
    if _BACKEND.value == SLURM:
      return _submit(sweep, pairs, _tables(experiments, workdir))
    sweep_lib.write(sweep)
    try:
      failed = _run(heard, sweep)
    except KeyboardInterrupt:
      cli.tell(
        f"the same command continues, or python -m launch resume {workdir}"
      )
      raise
    status = int(bool(failed))
    if failed:
      cli.tell(f"{len(failed)} of {len(found)} units FAILED: {sweep.folder}")
    # An experiment of which nothing is finished has no tables.
    there = {unit.name.split("/")[0] for unit in found if unit.finished}
    made = [one for one in experiments if one.name in there or not one.configs]
    for command in _tables(made, workdir):
      status = cli.run_child(command) or status
  return status


def _verb(arguments: list[str]) -> int:
  from launch import verbs

  verb, *rest = arguments
  if verb not in verbs.VERBS:
    cli.no_arguments(arguments)
  if len(rest) != 1 or not rest[0]:
    raise ValueError(f"give a folder: python -m launch {verb} WORKDIR")
  return verbs.VERBS[verb](pathlib.Path(rest[0]))


def _pairs(one: Experiment) -> list[Pair]:
  """Returns the configs that are asked for, or the experiment's own."""
  configs = config_flag.several(
    sys.argv, experiment.asked_of(one, _SMOKE.value)
  )
  fields, told = [*config_flag.overridden()], tuple(config_flag.told())
  experiment.refuse_what_is_swept(one, configs.values(), fields, _SMOKE.value)
  return [Pair(name, config, told) for name, config in configs.items()]


def _tables(experiments, workdir) -> list[list[str]]:
  """Returns the commands that make the tables, if they are asked for."""
  module = [sys.executable, "-m"]
  return [
    [*module, f"experiments.{one.name}", "--render", f"--workdir={workdir}"]
    for one in (experiments if _RENDER.value else ())
  ]


def _print(found: dict) -> None:
  """Prints each unit's command."""
  open_ = units.left([*found])
  for unit in found:
    print(f"# {unit.name}{'' if unit in open_ else ': done'}")
    print(unit.line)


def _run(heard: cli.Heard, sweep: sweep_lib.Sweep) -> list[units.Unit]:
  """Runs what is left; returns the units that failed."""
  from launch import attempt, on_ray, states

  open_ = units.left(sweep.units)
  with states.watched(sweep.units) as say:
    if len(open_) < len(sweep.units):
      say(
        f"{len(sweep.units) - len(open_)} of {len(sweep.units)} units are done"
      )
    if not open_:
      return []
    if _BACKEND.value == HERE:
      return attempt.run_all(open_, _RETRIES.value, say)
    asked = on_ray.Asked(
      address=_ADDRESS.value,
      gpus=_GPUS.value,
      cpus=_CPUS.value,
      max_parallel=_PARALLEL.value,
      machine_gpus=_GPUS_HERE.value,
    )
    return on_ray.run(
      open_,
      asked,
      workdir=sweep.workdir,
      retries=_RETRIES.value,
      say=say,
      listen=heard.listen,
    )


def _submit(sweep: sweep_lib.Sweep, pairs: list[Pair], render) -> int:
  from launch import attempt, on_slurm

  asked = on_slurm.Asked(
    time=_TIME.value,
    partition=_PARTITION.value,
    more=_SBATCH.value,
    max_parallel=_PARALLEL.value,
  )
  sweep = on_slurm.with_configs(sweep, pairs)
  sweep_lib.write(sweep)
  on_slurm.submit(sweep, render, asked, attempt.say)
  return 0


if __name__ == "__main__":
  cli.run(
    "launch",
    main,
    lambda argv: config_flag.parse(argv, "quickstart", many=True),
  )
