r"""Runs experiments, and makes their tables and figures.

  python -m experiments
  python -m experiments temperature depth --config=configs/llama3_1b_8b.py
  python -m experiments my_module:MINE
  python -m experiments main_table runs/llama3_1b_8b

The first command runs all experiments, the third a user's experiment. The last
makes tables of finished runs: its folder is a run's, or contains several runs
of the same config. After a stop the same command continues.
"""

import pathlib
import sys

import jax
from absl import flags

from experiments import experiment as experiment_lib
from experiments import running
from experiments.experiment import NAMES
from tv_jax import runs
from tv_jax.io import cli, config_flag
from tv_jax.io.errors import UserError

_WORKDIR = flags.DEFINE_string(
  "workdir", running.WORKDIR, "The folder of all results."
)
_SMOKE = flags.DEFINE_bool(
  "smoke", False, "A minimal run that shows that all works."
)
_RENDER = flags.DEFINE_bool("render", False, "Only make tables of past runs.")
config_flag.define()


def main(arguments: list[str]) -> None:
  """Runs unfinished experiments, and makes their tables."""
  named = [word for word in arguments if word in NAMES or ":" in word]
  folders = [pathlib.Path(word) for word in arguments if word not in named]
  for folder in folders:
    if not folder.is_dir():
      raise UserError(
        f"{folder}: neither a folder nor an experiment: {', '.join(NAMES)}"
      )
  if folders and not named:
    raise UserError("name the experiment whose tables you want")
  experiments = [experiment_lib.find(name) for name in named or NAMES]
  workdir = pathlib.Path(_WORKDIR.value)
  if folders:
    for experiment in experiments:
      groups = [experiment_lib.read(place) for place in folders]
      running.write(experiment, groups, folders[0])
    return
  if _RENDER.value:
    for experiment in experiments:
      place = workdir / experiment.name
      groups = experiment_lib.read_all(place)
      running.write(experiment, groups, place)
    return
  plans = [
    experiment_lib.planned(experiment, sys.argv, _SMOKE.value)
    for experiment in experiments
  ]
  # On a CPU a smoke run spends nearly all its time compiling.
  if _SMOKE.value and jax.default_backend() == "cpu":
    jax.config.update("jax_disable_most_optimizations", True)
  runs.keep_programs(None)
  for experiment, planned in zip(experiments, plans, strict=True):
    place = workdir / experiment.name
    running.write(experiment, running.run(planned, place), place)
    jax.clear_caches()  # thousands of live programs crash a process


if __name__ == "__main__":
  cli.run("experiments", main, config_flag.parse, arguments=True)
