"""Runs what is left of an experiment, and makes its tables and figures."""

import pathlib
from collections.abc import Sequence

from experiments import experiment as experiment_lib
from experiments.experiment import Artefact, Experiment, Group
from tv_jax import runs
from tv_jax.edge import disk
from tv_jax.edge import tables as formats
from tv_jax.edge.tables import Table
from tv_jax.runs import store
from tv_jax.runs.report import progress

WORKDIR = "runs/experiments"
Plan = dict[tuple[str, str], runs.Run]  # by group and shard


def run(one: Experiment, planned: Plan, place: pathlib.Path) -> list[Group]:
  """Runs what is left of an experiment; returns all its groups.

  Args:
    one: The experiment.
    planned: Its runs.
    place: The folder of the groups' folders.
  """
  loaded, groups = {}, {}

  def load(settings):
    if settings.models not in loaded:
      loaded.clear()  # two pairs may not fit
      loaded[settings.models] = runs.load(settings)
    return loaded[settings.models]

  with progress.shown() as (say, advance):
    for i, ((name, shard), settings) in enumerate(planned.items(), 1):
      say(f"{i}/{len(planned)} {place / name / shard}")
      runs.run(settings, place / name / shard, say, advance, load)
      groups.setdefault(name, []).append(shard)
  return [
    experiment_lib.read(place / name, name, own, one.apart)
    for name, own in groups.items()
  ]


def there(one: Experiment, place: pathlib.Path) -> list[Group]:
  """Reads the runs of an experiment: a group for each config."""
  inside = sorted(place.iterdir()) if place.is_dir() else []
  found = [own for own in inside if own.is_dir() and store.read_many(own)]
  if one.configs and not found:
    raise ValueError(f"{place}: there is no run in it")
  return [group(own, one) for own in found]


def group(folder: pathlib.Path, one: Experiment) -> Group:
  """Reads the runs in a folder."""
  return experiment_lib.read(folder, folder.absolute().name, apart=one.apart)


def make(one: Experiment, groups: Sequence[Group], place: pathlib.Path) -> None:
  """Makes an experiment's artefact, prints it, and writes its files."""
  made = one.render(groups)
  texts = {
    f"{one.name}.md": f"# {one.title}\n\n{markdown(made)}",
    f"{one.name}.tex": "\n".join(map(formats.latex, made.tables)),
    **{f"{figure}.svg": svg for figure, svg in made.figures.items()},
  }
  alike: dict[tuple, list[Table]] = {}  # tables with the same columns
  for table in made.tables:
    alike.setdefault(tuple(table.columns), []).append(table)
  for i, (columns, tables) in enumerate(alike.items()):
    rows = [[table.title, *row] for table in tables for row in table.rows]
    name = f"{one.name}-{i + 1}.csv" if i else f"{one.name}.csv"
    texts[name] = formats.comma_separated(["table", *columns], rows)
  place.mkdir(parents=True, exist_ok=True)
  for name, text in texts.items():
    disk.write_atomic(place / name, text)
  console = formats.show(made.tables)
  for line in (*made.reading, *made.notes, f"{place}: {', '.join(texts)}"):
    console.print(line, markup=False)


def markdown(made: Artefact, folder: str = "") -> str:
  """Returns an artefact as Markdown, whose figures are in `folder`."""
  figures = [f"![{one}]({folder}{one}.svg)\n" for one in made.figures]
  tables = [formats.markdown(table) for table in made.tables]
  reading = [f"{formats.markdown_text(line)}\n" for line in made.reading]
  notes = [f"*{formats.markdown_text(line)}*\n" for line in made.notes]
  return "\n".join([*reading, *tables, *figures, *notes])
