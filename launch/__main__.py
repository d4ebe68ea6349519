"""Runs an experiment's units somewhere, and makes its tables.

  python -m launch --experiment=temperature
  python -m launch --experiment=all --config=configs/llama3_1b_8b.py \
    --backend=print

A unit is a run of `tv_jax.main`: a pair of models and a shard of the
experiment's grid. What is done already is left out, and the same command goes
on after whatever happened. Backends: `here`, one unit after the other; `print`,
the commands alone.
"""

from __future__ import annotations

import pathlib
import sys

from absl import flags
from ml_collections import config_flags

from experiments import experiment, names
from launch import here, units
from launch.units import Pair
from tv_jax import cli
from tv_jax.cli import config_flag

BACKENDS = ("here", "print")

_EXPERIMENT = cli.define_names(
  "experiment", None, f"Which: {', '.join(names.NAMES)}; or all."
)
_BACKEND = flags.DEFINE_enum("backend", "here", BACKENDS, "Where to run.")
_WORKDIR = flags.DEFINE_string("workdir", "runs/experiments", "For all units.")
_RETRIES = flags.DEFINE_integer(
  "retries", 2, "Of a unit that was killed, or crashed.", lower_bound=0
)
_SMOKE = flags.DEFINE_bool("smoke", False, "As little as shows that it works.")
_RENDER = flags.DEFINE_bool("render", True, "Whether to make tables at last.")
config_flags.DEFINE_config_file("config", None, config_flag.HELP)


def main(heard, arguments) -> int:
  """Runs the units; 1 if one failed, or a table could not be made."""
  del heard  # a signal is passed on to the unit that runs
  cli.no_arguments(arguments)
  wanted = cli.split(_EXPERIMENT.value)
  if not wanted:
    raise ValueError(f"give --experiment: {', '.join(names.NAMES)}, or all")
  wanted = names.NAMES if wanted == ["all"] else wanted
  experiments = [names.find(one) for one in wanted]
  workdir = pathlib.Path(_WORKDIR.value)
  found = [
    unit for one in experiments for unit in _units(one, workdir)
  ]  # all is checked before anything runs
  if _BACKEND.value == "print":
    for unit in found:
      print(unit.line if not unit.done else f"# done: {unit.name}")
    return 0
  failed = here.run(found, retries=_RETRIES.value, say=_say)
  status = int(bool(failed))
  if failed:
    _say(f"{len(failed)} of {len(found)} units FAILED: give the same command")
  if _RENDER.value:
    for one in experiments:
      command = [sys.executable, "-m", f"experiments.{one.name}", "--render"]
      command.append(f"--workdir={workdir}")
      status = cli.run_child(command) or status
  return status


def _units(one, workdir) -> list[units.Unit]:
  """Of the config that is asked for, or of the experiment's own."""
  configs = config_flag.several(
    sys.argv, experiment.asked_of(one, _SMOKE.value)
  )
  fields, told = [*config_flag.overridden()], tuple(config_flag.told())
  experiment.refuse_what_is_swept(one, configs.values(), fields, _SMOKE.value)
  pairs = [Pair(name, config, told) for name, config in configs.items()]
  return units.expand(one, pairs, workdir, _SMOKE.value)


def _say(line: str) -> None:
  print(line, flush=True)


if __name__ == "__main__":
  cli.run("launch", main, lambda argv: config_flag.parse(argv, "quickstart"))
