"""How an experiment is run: `python -m experiments.NAME`.

Without a folder it runs what is left of the experiment, shard by shard, and
then makes tables and figures; the same command goes on where it was stopped.
With folders it only makes these, of the runs that are in them.
"""

from __future__ import annotations

import importlib
import os
import pathlib
import sys
from collections.abc import Callable, Sequence

import ml_collections
import rich.console
from absl import flags, logging
from ml_collections import config_flags

from experiments import experiment as experiment_lib
from experiments import writing
from experiments.experiment import Artefact, Experiment, Group
from tv_jax.edge import cli, config_flag
from tv_jax.runs import store
from tv_jax.runs.report import formats

WORKDIR = os.path.join("runs", "experiments")
_WIDTH = 150  # where nobody says how wide the place is


def run(experiment: Experiment) -> None:
  """Runs the command of an experiment, and exits."""
  flags.disclaim_key_flags()  # --help shows them as the experiment's
  config_flags.DEFINE_config_file("config", None, config_flag.HELP)
  cli.define_folder("workdir", WORKDIR, "For results.")
  flags.DEFINE_bool("smoke", False, "As little as shows that it works.")
  flags.DEFINE_bool("render", False, "Make the tables of what is there alone.")
  flags.DEFINE_bool(
    "times",
    True,
    "Take times; --notimes leaves them, and all tables, to another call.",
  )
  flags.DEFINE_string(
    "compilation_cache",
    None,
    "Where compiled programs are kept, as of tv_jax.main.",
  )
  configs = []

  def parse(argv):
    if not experiment.configs:  # nothing is asked of models
      return flags.FLAGS(argv)
    left = config_flag.parse(argv, experiment.configs[0])
    own = experiment_lib.asked_of(experiment, flags.FLAGS.smoke)
    configs.extend(config_flag.several(argv, own).values())
    return left

  def main(heard, folders):
    experiment_lib.refuse_what_is_swept(
      experiment, configs, config_flag.overridden(), flags.FLAGS.smoke
    )
    logging.set_verbosity(logging.WARNING)
    place = pathlib.Path(flags.FLAGS.workdir) / experiment.name
    if folders:
      groups = [
        group(pathlib.Path(folder), experiment.apart) for folder in folders
      ]
      place = pathlib.Path(folders[0])
    elif flags.FLAGS.render:
      groups = there(experiment, place)
    else:
      groups = _run(heard, experiment, configs, place)
      if not flags.FLAGS.times:
        return heard.status
    if heard.status:
      return heard.status
    make(experiment, groups, place)
    return 0

  cli.run(f"experiments.{experiment.name}", main, parse)


def there(experiment: Experiment, place: pathlib.Path) -> list[Group]:
  """The configs that an experiment was run of."""
  inside = sorted(place.iterdir()) if place.is_dir() else []
  found = [one for one in inside if one.is_dir() and store.read_many(one)]
  if experiment.configs and not found:
    raise ValueError(f"{place}: there is no run in it")
  return [group(one, experiment.apart) for one in found]


def group(folder: pathlib.Path, apart: Sequence[str] = ()) -> Group:
  """The finished runs in a folder."""
  return experiment_lib.read(folder, folder.absolute().name, apart=apart)


def _run(heard, experiment, configs, place) -> list[Group]:
  """Runs what is left; all groups, if it was not told to end."""
  with heard.deaf():
    # Slow to import: a bad flag is answered before.
    import jax

    from tv_jax import runs
    from tv_jax.runs.report import progress

    importlib.import_module("tv_jax.runs.running")
  # On a CPU nearly all of its time is that of compiling.
  if flags.FLAGS.smoke and jax.default_backend() == "cpu":
    jax.config.update("jax_disable_most_optimizations", True)
  runs.keep_programs(flags.FLAGS.compilation_cache)
  try:
    with progress.shown() as (say, advance):
      return execute(
        experiment,
        configs,
        place,
        smoke=flags.FLAGS.smoke,
        times=flags.FLAGS.times,
        say=say,
        advance=advance,
      )
  except BaseException:
    if not heard.status:
      raise
    cli.tell(f"{heard.word()}: the same command goes on")
    return []


def execute(
  experiment: Experiment,
  configs: Sequence[ml_collections.ConfigDict],
  place: pathlib.Path,
  *,
  smoke: bool = False,
  times: bool = True,
  say: Callable[[str], None] = lambda line: None,
  advance: Callable[[int, int], None] = lambda done, count: None,
) -> list[Group]:
  """Runs what is left of an experiment: all of its groups.

  Args:
    experiment: Which.
    configs: What to run it of; a group is a folder of the config's name.
    place: For the groups' folders.
    smoke: Whether to do as little as shows that it works.
    times: Whether to take times, where the experiment asks for any.
    say: Told what is going on, a line at a time.
    advance: Told of each run how many answers there are, and will be.

  Returns:
    The groups.
  """
  from tv_jax import runs

  planned = [
    (config, shard, runs.from_config(shard.of(config)))
    for config in configs
    for shard in experiment_lib.shards(experiment, config, smoke)
  ]  # all is checked before anything runs
  load = _once(runs.load)
  names = {}
  for i, (config, shard, settings) in enumerate(planned, 1):
    folder = place / config.experiment / shard.name
    say(f"{i}/{len(planned)} {folder}")
    runs.run(settings, folder, say, advance, load, times=times)
    names.setdefault(config.experiment, []).append(shard.name)
  return [
    experiment_lib.read(place / name, name, shards, experiment.apart)
    for name, shards in names.items()
  ]


def _once(load):
  """Loads a pair that was loaded last no second time."""
  last = {}

  def same_or_loaded(settings):
    if settings.models not in last:
      last.clear()  # two pairs may not fit
      last[settings.models] = load(settings)
    return last[settings.models]

  return same_or_loaded


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
  told = f"{place}: {', '.join(path.name for path in written)}"
  console.print(told, markup=False, soft_wrap=True)
  return made
