"""Tables as Markdown, CSV, LaTeX, and text for a terminal."""

from __future__ import annotations

import csv
import io
import re
import sys
from collections.abc import Iterable, Sequence
from typing import NamedTuple

import rich.console
import rich.markup
import rich.table

NOTHING = "\u2013"  # a dash, for an empty cell
_WIDTH = 150  # if standard output is not a terminal
# Markdown's markup, with underscores only at the edge of a word.
_MARKUP = re.compile(r"[\\`*\[\]|~<>&]|(?<![^\W_])_|_(?![^\W_])")
_LATEX = str.maketrans(
  {
    **{mark: rf"\{mark}" for mark in "_%&#${}"},
    "\\": r"\textbackslash{}",
    "~": r"\textasciitilde{}",
    "^": r"\textasciicircum{}",
    "<": r"\textless{}",
    ">": r"\textgreater{}",
    "|": r"\textbar{}",
    # At the begin of a line these would be arguments of the line before.
    "[": "{[}",
    "*": "{*}",
    "±": r"$\pm$",
    "\u2013": "--",
  }
)


class Table(NamedTuple):
  """A table as text; the first column names the rows."""

  title: str
  groups: Sequence[tuple[str, int]]  # headings over columns, and their widths
  header: Sequence[str]
  rows: Sequence[Sequence[str]]
  notes: tuple[str, ...] = ()  # printed below the table

  @property
  def columns(self) -> list[str]:
    """The header, with each group's name before its columns' names."""
    above = [name for name, span in self.groups for _ in range(span)]
    above = above or [""] * len(self.header)
    return [
      f"{group} {name}".strip()
      for group, name in zip(above, self.header, strict=True)
    ]

  @property
  def numeric(self) -> list[bool]:
    """For each column, whether its cells are numbers or empty."""
    number = re.compile(rf"[+\-<~]?\s*\d|{NOTHING}?$")
    columns = zip(*self.rows, strict=True) if self.rows else self.header
    return [all(map(number.match, cells)) for cells in columns]


def plain(text: str) -> str:
  """Returns a text on one line; characters without a glyph become escapes."""
  return "".join(x if x.isprintable() else repr(x)[1:-1] for x in text)


def markdown_text(text: str) -> str:
  """Escapes a text for Markdown."""
  return _MARKUP.sub(r"\\\g<0>", plain(text))


def markdown(table: Table) -> str:
  """Returns a table as Markdown; groups become part of the columns' names."""
  lines = [[*map(markdown_text, row)] for row in (table.columns, *table.rows)]
  widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
  lines.insert(1, ["-" * width for width in widths])
  rows = [
    f"| {' | '.join(map(str.ljust, line, widths))} |".rstrip() for line in lines
  ]
  notes = [part for note in table.notes for part in (markdown_text(note), "")]
  return "\n".join([f"### {markdown_text(table.title)}", "", *rows, "", *notes])


def comma_separated(header: Sequence, rows: Iterable[Sequence]) -> str:
  """Returns rows as CSV: None is an empty field."""
  text = io.StringIO()
  csv.writer(text, lineterminator="\n").writerows([header, *rows])
  return text.getvalue()


def latex(table: Table) -> str:
  """Returns a table as a tabular of the booktabs package."""

  def line(cells):
    return " & ".join(cells) + r" \\"

  def texts(cells):
    return line(plain(cell).translate(_LATEX) for cell in cells)

  parts = [
    f"% {plain(table.title)}",
    rf"\begin{{tabular}}{{l{'r' * (len(table.header) - 1)}}}",
    r"\toprule",
  ]
  if table.groups:
    parts.append(
      line(
        rf"\multicolumn{{{span}}}{{c}}{{{name.translate(_LATEX)}}}"
        if name
        else ""
        for name, span in table.groups
      )
    )
  parts += [texts(table.header), r"\midrule"]
  for row in table.rows:
    parts += [r"\midrule"] * (row[0] == "All") + [texts(row)]
  return "\n".join([*parts, r"\bottomrule", r"\end{tabular}", ""])


def show(tables: Iterable[Table]) -> rich.console.Console:
  """Prints tables on standard output; returns the console, for more."""
  console = rich.console.Console(
    width=None if sys.stdout.isatty() else _WIDTH, highlight=False
  )
  for table in tables:
    for part in _parts(table, console.width):
      console.print(_terminal(part))
  return console


def _parts(table: Table, width: int) -> list[Table]:
  """Returns the table, or one for each group of columns if it is too wide."""
  cells = zip(table.columns, *table.rows, strict=True)
  needed = sum(max(map(len, column)) + 3 for column in cells)
  if needed <= width or len(table.groups) < 3:
    return [table]
  parts, end = [], 1
  for name, span in table.groups[1:]:
    place = [0, *range(end, end := end + span)]
    title = f"{table.title}; {name}"
    header, *rows = (
      [row[i] for i in place] for row in (table.header, *table.rows)
    )
    parts.append(Table(title, [], header, rows))
  parts[-1] = parts[-1]._replace(notes=table.notes)
  return parts


def _terminal(table: Table) -> rich.table.Table:
  def text(name):
    return rich.markup.escape(plain(name))

  result = rich.table.Table(title=text(table.title), title_justify="left")
  if table.notes:
    result.caption = text(" ".join(table.notes))
    result.caption_justify = "left"
  for name, numeric in zip(table.columns, table.numeric, strict=True):
    result.add_column(text(name), justify="right" if numeric else "left")
  for i, row in enumerate(table.rows, 2):
    last = i == len(table.rows) and table.rows[-1][0] == "All"
    result.add_row(*map(text, row), end_section=last)
  return result
