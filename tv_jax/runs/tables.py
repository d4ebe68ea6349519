"""Tables of texts, and reports: as Markdown, as LaTeX, and in a terminal."""

from __future__ import annotations

import dataclasses
import re
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

  @property
  def joined(self) -> pd.DataFrame:
    """The flat cells, with a group's name before those of its columns."""
    cells = self.flat
    if cells.columns.nlevels > 1:
      names = [" ".join(filter(None, pair)) for pair in cells.columns]
      cells.columns = pd.Index(names)
    return cells

  def markdown(self) -> str:
    """Returns the table as Markdown."""
    cells = self.joined.map(markdown_text)
    cells.columns = [*map(markdown_text, map(str, cells.columns))]
    text = cells.to_markdown(
      index=False, tablefmt="github", disable_numparse=True
    )
    notes = [part for note in self.notes for part in (markdown_text(note), "")]
    return "\n".join([f"### {markdown_text(self.title)}", "", text, "", *notes])

  def latex(self) -> str:
    """Returns the table as a tabular of the booktabs package."""
    cells, names = self.flat, self.cells.index.nlevels
    text = cells.to_latex(
      index=False,
      escape=True,
      multicolumn_format="c",
      column_format="l" * names + "r" * (cells.shape[1] - names),
    )
    text = text.replace("±", r"$\pm$").replace(NOTHING, "--")
    text = text.replace("\nAll &", "\n\\midrule\nAll &")
    return f"% {self.title}\n{text}"


@dataclasses.dataclass
class Report:
  """Tables and figures, with sentences about them.

  Attributes:
    findings: What was found.
    tables: The tables.
    figures: SVG figures by name.
    notes: What the numbers mean.
  """

  findings: list[str] = dataclasses.field(default_factory=list)
  tables: list[Table] = dataclasses.field(default_factory=list)
  figures: dict[str, str] = dataclasses.field(default_factory=dict)
  notes: list[str] = dataclasses.field(default_factory=list)

  def print(self, *last: str) -> None:
    """Prints the tables and sentences; a wide table continues below."""
    for table in self.tables:
      text = table.cells.to_string(line_width=_WIDTH)
      print(table.title, text, *table.notes, "", sep="\n")
    print(*self.notes, *self.findings, *last, sep="\n")


def texts(
  estimates: pd.DataFrame, spec: str = ".2f", unit: str = ""
) -> pd.Series:
  """Returns means with their errors, as "3.21 ± 0.02", or a dash."""
  columns = (estimates[name] for name in ("mean", "error", "n"))
  values = [
    NOTHING
    if pd.isna(mean)
    else f"{Estimate(mean=mean, error=error, n=n):{spec}}{unit}"
    for mean, error, n in zip(*columns, strict=True)
  ]
  return pd.Series(values, estimates.index, dtype=object)


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


def markdown_text(text: str) -> str:
  """Escapes a text for Markdown."""
  return _MARKUP.sub(r"\\\g<0>", text)
