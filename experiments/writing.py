"""An experiment's tables and figures as files."""

from __future__ import annotations

import pathlib
from collections.abc import Iterator

from experiments.experiment import Artefact, Experiment
from tv_jax.edge import disk
from tv_jax.runs.report import formats
from tv_jax.runs.report.tables import Table


def write(
  experiment: Experiment, made: Artefact, folder: pathlib.Path
) -> list[pathlib.Path]:
  """Writes NAME.md, .csv and .tex, and an SVG a figure; returns their paths."""
  name = experiment.name
  texts = {
    f"{name}.md": f"# {experiment.title}\n\n{markdown(made)}",
    f"{name}.tex": "\n".join(map(formats.latex, made.tables)),
  }
  for i, tables in enumerate(_alike(made.tables)):
    header = ["table", *formats.names(tables[0])]
    rows = [[table.title, *row] for table in tables for row in table.rows]
    place = f"{name}-{i + 1}.csv" if i else f"{name}.csv"
    texts[place] = formats.comma_separated(header, rows)
  for figure, svg in made.figures.items():
    texts[f"{figure}.svg"] = svg
  folder.mkdir(parents=True, exist_ok=True)
  for place, text in texts.items():
    disk.write_atomic(folder / place, text)
  return [folder / place for place in texts]


def markdown(made: Artefact, folder: str = "") -> str:
  """Everything but the title; figures are looked for in `folder`."""
  figures = [f"![{one}]({folder}{one}.svg)\n" for one in made.figures]
  tables = [formats.markdown(table) for table in made.tables]
  reading = [f"{formats.markdown_text(line)}\n" for line in made.reading]
  notes = [f"*{formats.markdown_text(line)}*\n" for line in made.notes]
  return "\n".join([*reading, *figures, *tables, *notes])


def _alike(tables) -> Iterator[list[Table]]:
  """Tables with the same columns."""
  kinds: dict[tuple, list[Table]] = {}
  for table in tables:
    kinds.setdefault(tuple(formats.names(table)), []).append(table)
  yield from kinds.values()
