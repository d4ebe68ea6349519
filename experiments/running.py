"""Runs an experiment, and writes its tables and figures."""

import pathlib
from collections.abc import Sequence

import pandas as pd

from experiments import experiment as experiment_lib
from experiments.experiment import Artefact, Experiment, Group, Planned
from tv_jax import runs
from tv_jax.io import disk, progress
from tv_jax.runs import tables as tables_lib

WORKDIR = "runs/experiments"


def run(planned: Sequence[Planned], place: pathlib.Path) -> list[Group]:
  """Runs an experiment's unfinished shards in a folder; returns all groups."""
  loaded, groups = {}, {}

  def load(settings):
    if settings.models not in loaded:
      loaded.clear()  # two pairs may not fit
      loaded[settings.models] = runs.load(settings)
    return loaded[settings.models]

  with progress.bar() as bar:
    for i, (name, _, settings) in enumerate(planned, 1):
      bar(f"{i}/{len(planned)} {place / name}")
      runs.run(settings, place / name, bar, load)
      group, shard = name.split("/")
      groups.setdefault(group, []).append(shard)
  return [
    experiment_lib.read(place / name, shards) for name, shards in groups.items()
  ]


def write(
  experiment: Experiment, groups: Sequence[Group], place: pathlib.Path
) -> None:
  """Makes an experiment's artefact, prints it, and writes its files."""
  artefact = experiment.render(groups)
  name = experiment.name
  texts = {
    f"{name}.md": f"# {experiment.title}\n\n{artefact_markdown(artefact)}",
    f"{name}.tex": "\n".join(map(tables_lib.latex, artefact.tables)),
    **{f"{figure}.svg": svg for figure, svg in artefact.figures.items()},
  }
  by_columns: dict[tuple, list[pd.DataFrame]] = {}
  for table in artefact.tables:
    cells = table.flat.set_axis(tables_lib.joined(table.flat.columns), axis=1)
    cells.insert(0, "table", table.title)
    by_columns.setdefault(tuple(cells.columns), []).append(cells)
  for i, parts in enumerate(by_columns.values()):
    text = pd.concat(parts).to_csv(index=False)
    texts[f"{name}-{i + 1}.csv" if i else f"{name}.csv"] = text
  place.mkdir(parents=True, exist_ok=True)
  for file, text in texts.items():
    disk.write_atomic(place / file, text)
  tables_lib.show(artefact.tables)
  files = f"{place}: {', '.join(texts)}"
  lines = *artefact.reading, *artefact.notes, files
  print(*map(tables_lib.plain, lines), sep="\n")


def artefact_markdown(artefact: Artefact, folder: str = "") -> str:
  """Returns an artefact as Markdown, with figures in `folder`."""
  figures = [f"![{name}]({folder}{name}.svg)\n" for name in artefact.figures]
  tables = [tables_lib.markdown(table) for table in artefact.tables]
  reading = [f"{tables_lib.markdown_text(line)}\n" for line in artefact.reading]
  notes = [f"*{tables_lib.markdown_text(line)}*\n" for line in artefact.notes]
  return "\n".join([*reading, *tables, *figures, *notes])
