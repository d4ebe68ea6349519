"""How an experiment is run: `python -m experiments.NAME`.

Without a folder it runs what is left of the experiment, shard by shard, and
then makes tables and figures; the same command continues after a stop. With
folders it only makes these, from the runs in them.
"""

from __future__ import annotations

import collections
import importlib
import os
import pathlib
from collections.abc import Callable, Sequence

import ml_collections
from absl import flags, logging
from ml_collections import config_flags

from experiments import experiment as experiment_lib
from experiments.experiment import Artefact, Experiment, Group
from tv_jax.edge import cli, config_flag, disk
from tv_jax.runs import store
from tv_jax.runs.report import formats, progress
from tv_jax.runs.report.tables import Table

WORKDIR = os.path.join("runs", "experiments")


def run(experiment: Experiment) -> None:
  """Runs the command of an experiment, and exits."""
  flags.disclaim_key_flags()  # --help shows them as the experiment's
  config_flags.DEFINE_config_file("config", None, config_flag.HELP)
  cli.define_folder("workdir", WORKDIR, "For results.")
  flags.DEFINE_bool("smoke", False, "As little as shows that it works.")
  flags.DEFINE_bool("render", False, "Only make tables of what is there.")
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
    left = config_flag.parse(argv, experiment.configs[0], many=True)
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
    if not heard.status:
      make(experiment, groups, place)
    return heard.status

  cli.run(f"experiments.{experiment.name}", main, parse)


def there(experiment: Experiment, place: pathlib.Path) -> list[Group]:
  """Reads the runs of an experiment: a group for each config."""
  inside = sorted(place.iterdir()) if place.is_dir() else []
  found = [one for one in inside if one.is_dir() and store.read_many(one)]
  if experiment.configs and not found:
    raise ValueError(f"{place}: there is no run in it")
  return [group(one, experiment.apart) for one in found]


def group(folder: pathlib.Path, apart: Sequence[str] = ()) -> Group:
  """Reads the runs in a folder."""
  return experiment_lib.read(folder, folder.absolute().name, apart=apart)


def _run(heard, experiment, configs, place) -> list[Group]:
  """Runs what is left; returns no groups if a signal ended it."""
  with heard.deaf():
    # Imported here, because it is slow: a bad flag is answered before.
    import jax

    from tv_jax import runs

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
    cli.tell(f"{heard.word()}: the same command continues")
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
  """Runs what is left of an experiment.

  Args:
    experiment: What to run.
    configs: What to run it with; each group's folder has its config's name.
    place: The folder of the groups' folders.
    smoke: Whether to do as little as shows that it works.
    times: Whether to take times, where the experiment asks for any.
    say: Called with a line about what is going on.
    advance: Called with the number of a run's answers, now and in the end.

  Returns:
    All groups.
  """
  from tv_jax import runs

  planned = [
    (str(config.experiment), shard.name, runs.from_config(shard.of(config)))
    for config in configs
    for shard in experiment_lib.shards(experiment, config, smoke)
  ]  # all is checked before anything runs
  for name, count in collections.Counter(x[:2] for x in planned).items():
    if count > 1:
      raise ValueError(
        f"{'/'.join(name)} is {count} runs: give configs names of their own"
      )

  shards, loaded = {}, {}

  def load(settings):
    if settings.models not in loaded:
      loaded.clear()  # two pairs may not fit
      loaded[settings.models] = runs.load(settings)
    return loaded[settings.models]

  for i, (name, shard, settings) in enumerate(planned, 1):
    folder = place / name / shard
    say(f"{i}/{len(planned)} {folder}")
    runs.run(settings, folder, say, advance, load, times=times)
    shards.setdefault(name, []).append(shard)
  return [
    experiment_lib.read(place / name, name, own, experiment.apart)
    for name, own in shards.items()
  ]


def make(
  experiment: Experiment, groups: Sequence[Group], place: pathlib.Path
) -> Artefact:
  """Makes an experiment's artefact, prints it, and writes its files."""
  made = experiment.render(groups)
  console = progress.print_tables(made.tables)
  for line in (*made.reading, *made.notes):
    console.print(line, markup=False)
  written = _write(experiment, made, place)
  told = f"{place}: {', '.join(written)}"
  console.print(told, markup=False, soft_wrap=True)
  return made


def _write(experiment, made: Artefact, folder: pathlib.Path) -> list[str]:
  """Writes NAME.md, .csv and .tex, and an SVG a figure; returns their names."""
  name = experiment.name
  texts = {
    f"{name}.md": f"# {experiment.title}\n\n{markdown(made)}",
    f"{name}.tex": "\n".join(map(formats.latex, made.tables)),
  }
  alike: dict[tuple, list[Table]] = {}  # tables with the same columns
  for table in made.tables:
    alike.setdefault(tuple(formats.names(table)), []).append(table)
  for i, (columns, tables) in enumerate(alike.items()):
    rows = [[table.title, *row] for table in tables for row in table.rows]
    place = f"{name}-{i + 1}.csv" if i else f"{name}.csv"
    texts[place] = formats.comma_separated(["table", *columns], rows)
  texts |= {f"{figure}.svg": svg for figure, svg in made.figures.items()}
  folder.mkdir(parents=True, exist_ok=True)
  for place, text in texts.items():
    disk.write_atomic(folder / place, text)
  return [*texts]


def markdown(made: Artefact, folder: str = "") -> str:
  """Returns an artefact as Markdown, whose figures are in `folder`."""
  figures = [f"![{one}]({folder}{one}.svg)\n" for one in made.figures]
  tables = [formats.markdown(table) for table in made.tables]
  reading = [f"{formats.markdown_text(line)}\n" for line in made.reading]
  notes = [f"*{formats.markdown_text(line)}*\n" for line in made.notes]
  return "\n".join([*reading, *figures, *tables, *notes])
