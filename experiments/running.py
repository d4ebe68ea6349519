"""Runs an experiment, and writes its tables and figures."""

import pathlib
from collections.abc import Sequence

import pandas as pd

from experiments import experiment as experiment_lib
from experiments.experiment import Experiment, Group, Planned
from tv_jax import runs
from tv_jax.io import disk, progress
from tv_jax.runs.tables import Report, markdown_text

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
  """Makes an experiment's report, prints it, and writes its files."""
  report, name = experiment.render(groups), experiment.name
  texts = {
    f"{name}.md": f"# {experiment.title}\n\n{markdown(report)}",
    f"{name}.tex": "\n".join(table.latex() for table in report.tables),
    **{f"{figure}.svg": svg for figure, svg in report.figures.items()},
  }
  by_columns: dict[tuple, list[pd.DataFrame]] = {}
  for table in report.tables:
    cells = table.joined
    cells.insert(0, "table", table.title)
    by_columns.setdefault(tuple(cells.columns), []).append(cells)
  for i, parts in enumerate(by_columns.values()):
    text = pd.concat(parts).to_csv(index=False)
    texts[f"{name}-{i + 1}.csv" if i else f"{name}.csv"] = text
  place.mkdir(parents=True, exist_ok=True)
  for file, text in texts.items():
    disk.write_atomic(place / file, text)
  report.print(f"{place}: {', '.join(texts)}")


def markdown(report: Report, folder: str = "") -> str:
  """Returns a report as Markdown, with figures in `folder`."""
  figures = [f"![{name}]({folder}{name}.svg)\n" for name in report.figures]
  tables = [table.markdown() for table in report.tables]
  findings = [f"{markdown_text(line)}\n" for line in report.findings]
  notes = [f"*{markdown_text(line)}*\n" for line in report.notes]
  return "\n".join([*findings, *tables, *figures, *notes])
