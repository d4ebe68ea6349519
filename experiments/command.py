"""How an experiment is run: `python -m experiments.NAME`.

Without a folder it runs what is left of the experiment, shard by shard, and
then makes tables and figures; the same command goes on where it was stopped.
With folders it only makes these, of the runs that are in them.
"""

from __future__ import annotations

import functools
import os
import pathlib
import sys
from collections.abc import Sequence

import rich.console
from absl import flags, logging
from ml_collections import config_flags

from experiments import experiment as experiment_lib
from experiments import writing
from experiments.experiment import Artefact, Experiment, Group
from tv_jax import cli
from tv_jax.cli import config_flag
from tv_jax.report import formats

WORKDIR = os.path.join("runs", "experiments")
_WIDTH = 150  # where nobody says how wide the place is


def run(experiment: Experiment) -> None:
  """Runs the command of an experiment, and exits."""
  _define(flags.FLAGS)
  configs = []

  def parse(argv):
    if not experiment.configs:  # nothing is asked of models
      return flags.FLAGS(argv)
    left = _parse(flags.FLAGS, argv, experiment.configs[0])
    configs.append(flags.FLAGS.config)
    if not flags.FLAGS["config"].present:
      for other in experiment.configs[1:]:
        values = flags.FlagValues()
        _define(values)
        _parse(values, argv, other)
        configs.append(values.config)
    return left

  def main(heard, folders):
    logging.set_verbosity(logging.WARNING)
    place = pathlib.Path(flags.FLAGS.workdir) / experiment.name
    if folders:
      groups = [group(pathlib.Path(folder)) for folder in folders]
      place = pathlib.Path(folders[0])
    else:
      groups = _run(heard, experiment, configs, place)
    if heard.status:
      return heard.status
    make(experiment, groups, place)
    return 0

  cli.run(f"experiments.{experiment.name}", main, parse)


def _define(values: flags.FlagValues) -> None:
  config_flags.DEFINE_config_file(
    "config", None, config_flag.HELP, flag_values=values
  )
  flags.DEFINE_string("workdir", WORKDIR, "For results.", flag_values=values)
  flags.DEFINE_bool(
    "smoke",
    False,
    "As little as shows that it works.",
    flag_values=values,
  )
  flags.DEFINE_string(
    "compilation_cache",
    None,
    "Where compiled programs are kept, as of tv_jax.main.",
    flag_values=values,
  )


def _parse(values, argv, default):
  """Reads the flags; what is missing of --config is a bundled one's name."""
  name, colon, arg = default.partition(":")
  path = config_flag.folder() / f"{name}.py"
  return config_flag.parse(argv, f"{path}{colon}{arg}", values)


def group(folder: pathlib.Path) -> Group:
  """The finished runs in a folder."""
  return experiment_lib.read(folder, folder.absolute().name)


def _run(heard, experiment, configs, place) -> list[Group]:
  """Runs what is left; all groups, once they are there."""
  with heard.deaf():
    # Slow to import: a bad flag is answered before.
    from tv_jax import evaluate
    from tv_jax.report import progress
  smoke = flags.FLAGS.smoke
  planned = [
    (config, shard, evaluate.from_config(shard.of(config)))
    for config in configs
    for shard in experiment_lib.shards(experiment, config, smoke)
  ]  # all is checked before anything runs
  evaluate.keep_programs(flags.FLAGS.compilation_cache)
  load = functools.lru_cache(maxsize=1)(evaluate.load)
  try:
    with progress.shown() as shown:
      for i, (config, shard, settings) in enumerate(planned, 1):
        folder = place / config.experiment / shard.name
        shown.say(f"{i}/{len(planned)} {folder}")
        evaluate.run(settings, folder, shown.say, shown.advance, load)
  except BaseException:
    if not heard.status:
      raise
    cli.tell(f"{heard.word()}: the same command goes on")
    return []
  return [
    experiment_lib.read(
      place / config.experiment,
      config.experiment,
      [s.name for other, s, _ in planned if other is config],
    )
    for config in configs
    if any(other is config for other, _, _ in planned)
  ]


def make(
  experiment: Experiment, groups: Sequence[Group], place: pathlib.Path
) -> Artefact:
  """The tables on standard output, and all of it in files of a folder."""
  made = experiment.render(groups)
  console = rich.console.Console(
    width=None if sys.stdout.isatty() else _WIDTH, highlight=False
  )
  for table in made.tables:
    for part in formats.terminal(table, console.width):
      console.print(part)
  for line in (*made.reading, *made.notes):
    console.print(line, markup=False)
  written = writing.write(experiment, made, place)
  console.print(
    f"{place}: {', '.join(path.name for path in written)}", markup=False
  )
  return made
