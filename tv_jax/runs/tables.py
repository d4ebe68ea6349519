"""Tables of texts, as Markdown, LaTeX, and text for a terminal."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import NamedTuple

import pandas as pd

from tv_jax.engine.results import Estimate
from tv_jax.runs.records import CONDITION, NONE, PLAIN

NOTHING = "\u2013"  # a dash, for an empty cell
_WIDTH = 150  # of a terminal, in letters
# Markdown's markup, with underscores only at the edge of a word.
_MARKUP = re.compile(r"[\\`*\[\]|~<>&]|(?<![^\W_])_|_(?![^\W_])")


class Table(NamedTuple):
  """A table as text.

  Attributes:
    title: Its title.
    cells: The texts. The index names the rows; columns of two levels are in
      groups.
    notes: Sentences below the table.
  """

  title: str
  cells: pd.DataFrame
  notes: tuple[str, ...] = ()

  @property
  def flat(self) -> pd.DataFrame:
    """The cells with the names of rows in the first columns."""
    names = self.cells.index.names
    result = self.cells.reset_index(names=[name or "" for name in names])
    if result.columns.nlevels > 1:  # the names have no group
      columns: list = [*result.columns]
      columns[: len(names)] = [("", name) for name, _ in columns[: len(names)]]
      result.columns = pd.MultiIndex.from_tuples(columns)
    return result


def texts(
  estimates: pd.DataFrame, spec: str = ".2f", unit: str = ""
) -> pd.Series:
  """Returns means with their errors, as "3.21 ± 0.02", or a dash."""
  columns = (estimates[name] for name in ("mean", "error", "n"))
  values = [
    Estimate(mean=mean, error=error, n=n)
    for mean, error, n in zip(*columns, strict=True)
  ]
  return pd.Series(
    [
      NOTHING if pd.isna(value.mean) else f"{value:{spec}}{unit}"
      for value in values
    ],
    estimates.index,
    dtype=object,
  )


def by_method(cells: pd.DataFrame) -> pd.DataFrame:
  """Names the rows of methods by rule, tree, and the axes that differ.

  Args:
    cells: Cells with the index `METHOD`.
  """
  names = cells.index.to_frame(index=False).astype(object)
  drafted = names[names["verifier"] != PLAIN]
  several = len(drafted[CONDITION].drop_duplicates()) > 1
  names["temperature"] = names["temperature"].map("{:g}".format)
  names = names[["verifier", "tree", *CONDITION * several]]
  names = names.replace({"tree": NONE, "proposal": NONE}, NOTHING)
  return cells.set_axis(pd.MultiIndex.from_frame(names))


def plain(text: str) -> str:
  """Returns a text on one line; characters without a glyph become escapes."""
  return "".join(x if x.isprintable() else repr(x)[1:-1] for x in text)


def markdown_text(text: str) -> str:
  """Escapes a text for Markdown."""
  return _MARKUP.sub(r"\\\g<0>", plain(text))


def joined(columns: pd.Index) -> list[str]:
  """Returns columns' names, each after its group's name."""
  if columns.nlevels == 1:
    return [*map(str, columns)]
  return [" ".join(filter(None, pair)) for pair in columns]


def markdown(table: Table) -> str:
  """Returns a table as Markdown; groups become part of the columns' names."""
  cells = table.flat.map(markdown_text)
  cells.columns = [*map(markdown_text, joined(cells.columns))]
  text = cells.to_markdown(
    index=False, tablefmt="github", disable_numparse=True
  )
  notes = [part for note in table.notes for part in (markdown_text(note), "")]
  return "\n".join([f"### {markdown_text(table.title)}", "", text, "", *notes])


def latex(table: Table) -> str:
  """Returns a table as a tabular of the booktabs package."""
  cells = table.flat.map(plain)
  names = table.cells.index.nlevels
  text = cells.to_latex(
    index=False,
    escape=True,
    multicolumn_format="c",
    column_format="l" * names + "r" * (cells.shape[1] - names),
  )
  text = text.replace("±", r"$\pm$").replace(NOTHING, "--")
  text = text.replace("\nAll &", "\n\\midrule\nAll &")
  # At the begin of a line these would be arguments of the line before.
  text = re.sub(r"(?m)^([\[*])", r"{\1}", text)
  return f"% {plain(table.title)}\n{text}"


def show(tables: Iterable[Table]) -> None:
  """Prints tables; one that is too wide continues below."""
  for table in tables:
    print(plain(table.title))
    cells = table.cells.map(plain)
    print(cells.to_string(line_width=_WIDTH), *table.notes, "", sep="\n")
