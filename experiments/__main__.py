r"""Runs experiments, and makes their tables and figures.

  python -m experiments
  python -m experiments temperature depth --config=configs/llama3_1b_8b.py
  python -m experiments my_module:MINE
  python -m experiments main_table runs/llama3_1b_8b

The first runs all, the third one of your own. The last makes tables of finished
runs: the folder is a run's, or one above several of one config. The same
command again continues after a stop.
"""

import collections
import pathlib
import sys

import jax
from absl import flags, logging

from experiments import experiment as experiment_lib
from experiments import names, running
from experiments.experiment import Experiment
from experiments.names import NAMES
from tv_jax import runs
from tv_jax.edge import cli, config_flag

_WORKDIR = flags.DEFINE_string("workdir", running.WORKDIR, "For results.")
_SMOKE = flags.DEFINE_bool("smoke", False, "As little as shows that it works.")
_RENDER = flags.DEFINE_bool(
  "render", False, "Only make tables of what is there."
)
config_flag.define()


def main(arguments: list[str]) -> None:
  """Runs what is left, and makes tables."""
  logging.set_verbosity(logging.WARNING)
  named = [one for one in arguments if one in NAMES or ":" in one]
  folders = [pathlib.Path(one) for one in arguments if one not in named]
  for folder in folders:
    if not folder.is_dir():
      raise ValueError(
        f"{folder}: neither a folder nor an experiment: {', '.join(NAMES)}"
      )
  if folders and not named:
    raise ValueError("name the experiment whose tables you want")
  found = [names.find(name) for name in named or NAMES]
  workdir = pathlib.Path(_WORKDIR.value)
  if folders:
    for one in found:
      groups = [running.group(place, one) for place in folders]
      running.make(one, groups, folders[0])
    return
  if _RENDER.value:
    for one in found:
      place = workdir / one.name
      running.make(one, running.there(one, place), place)
    return
  plans = [plan(one) for one in found]  # all is checked before anything runs
  # On a CPU nearly all of a smoke run's time is that of compiling.
  if _SMOKE.value and jax.default_backend() == "cpu":
    jax.config.update("jax_disable_most_optimizations", True)
  runs.keep_programs(None)
  for one, own in zip(found, plans, strict=True):
    place = workdir / one.name
    running.make(one, running.run(one, own, place), place)
    jax.clear_caches()  # thousands of live programs crash a process


def plan(one: Experiment) -> running.Plan:
  """Returns the runs of an experiment, with what the command line sets."""
  if not one.configs:  # nothing is asked of models
    return {}
  smoke = _SMOKE.value
  asked = experiment_lib.asked_of(one, smoke)
  configs = config_flag.several(sys.argv, asked).values()
  fields = [field for field, _ in config_flag.fields(sys.argv)]
  experiment_lib.refuse_what_is_swept(one, configs, fields, smoke)
  planned = [
    ((str(config.experiment), shard.name), runs.from_config(shard.of(config)))
    for config in configs
    for shard in experiment_lib.shards(one, config, smoke)
  ]
  for key, count in collections.Counter(key for key, _ in planned).items():
    if count > 1:
      raise ValueError(
        f"{'/'.join(key)} is {count} runs: give configs names of their own"
      )
  return dict(planned)


if __name__ == "__main__":
  cli.run("experiments", main, config_flag.parse)
