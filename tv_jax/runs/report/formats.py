"""Writes tables as Markdown, CSV, LaTeX and HTML, and for a terminal."""

import csv
import html as html_lib
import io
import re
from collections.abc import Iterable, Sequence

import rich.markup
import rich.table

from tv_jax.runs.report import fragments
from tv_jax.runs.report.tables import Table

_LATEX = str.maketrans(
  {
    "_": r"\_",
    "%": r"\%",
    "&": r"\&",
    "#": r"\#",
    "$": r"\$",
    "{": r"\{",
    "}": r"\}",
    "\\": r"\textbackslash{}",
    "~": r"\textasciitilde{}",
    "^": r"\textasciicircum{}",
    "<": r"\textless{}",
    ">": r"\textgreater{}",
    "|": r"\textbar{}",
    # After a line's end these would be that command's.
    "[": "{[}",
    "*": "{*}",
    "±": r"$\pm$",
    "\u2013": "--",
  }
)

# What Markdown reads as markup: marks anywhere, underscores at the edge of a
# word, what makes a link of an address, and what begins a line.
_MARKUP = re.compile(
  r"""[\\`*\[\]|~#$] | (?<![^\W_])_ | _(?![^\W_]) | ^[-+=:](?![\d.])
  | :(?=//) | (?<=\bwww)\. | @(?=[\w-]+\.)""",
  re.VERBOSE | re.IGNORECASE,
)

# What begins a spreadsheet's formula, in full width, too.
_FORMULA = {*"=+-@\uff1d\uff0b\uff0d\uff20"}
_NUMBER = re.compile(r"[+-]?[\d.]+(%|x)?( ± ([\d.]+%?|\?))?( %)?")


def markdown_text(text: str) -> str:
  """Escapes a text for Markdown, in a cell or at a line's beginning."""
  text = html_lib.escape(fragments.plain(text), quote=False)
  text = _MARKUP.sub(r"\\\g<0>", text)
  return re.sub(r"^(\d+)([.)])(?=\s|$)", r"\1\\\2", text)  # no list's


def markdown(table: Table) -> str:
  """Returns a table as Markdown; groups become part of the columns' names."""
  header = names(table)
  cells = [[*map(markdown_text, row)] for row in (header, *table.rows)]
  widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
  cells.insert(1, ["-" * width for width in widths])
  lines = [
    f"| {' | '.join(map(str.ljust, row, widths))} |".rstrip() for row in cells
  ]
  notes = [part for note in table.notes for part in (markdown_text(note), "")]
  title = markdown_text(table.title)
  return "\n".join([f"### {title}", "", *lines, "", *notes])


def comma_separated(header: Sequence, rows: Iterable[Sequence]) -> str:
  """Returns rows as CSV: None is an empty field, a formula is quoted."""

  def field(value):
    if not isinstance(value, str):
      return value
    value = fragments.plain(value)
    formula = value[:1] in _FORMULA and not _NUMBER.fullmatch(value)
    return f"'{value}" if formula else value

  text = io.StringIO()
  writer = csv.writer(text, lineterminator="\n")
  writer.writerows(map(field, row) for row in (header, *rows))
  return text.getvalue()


def latex(table: Table) -> str:
  """Returns a table as a tabular of the booktabs package."""

  def text(cell):
    return fragments.plain(cell).translate(_LATEX)

  def line(cells):
    return " & ".join(cells) + r" \\"

  columns = "l" + "r" * (len(table.header) - 1)
  parts = [
    rf"% {fragments.plain(table.title)}",
    rf"\begin{{tabular}}{{{columns}}}",
    r"\toprule",
  ]
  if table.groups:
    parts.append(
      line(
        rf"\multicolumn{{{span}}}{{c}}{{{text(name)}}}" if name else ""
        for name, span in table.groups
      )
    )
  parts += [line(map(text, table.header)), r"\midrule"]
  for row in table.rows:
    parts += [r"\midrule"] * (row[0] == "All") + [line(map(text, row))]
  return "\n".join([*parts, r"\bottomrule", r"\end{tabular}", ""])


def html(table: Table) -> str:
  """Returns a table, and its notes, for the page."""
  return fragments.table(
    table.header, table.rows, caption=table.title, groups=table.groups
  ) + "".join(map(fragments.paragraph, table.notes))


def terminal(table: Table, width: int) -> list[rich.table.Table]:
  """Returns the table, or one for each group of columns if it is too wide."""
  wide = names(table)
  needed = sum(
    max(map(len, column)) + 3 for column in zip(wide, *table.rows, strict=True)
  )
  if needed <= width or len(table.groups) < 3:
    return [_rich(table.title, wide, table.rows, table.notes)]
  tables, place = [], 1
  for name, span in table.groups[1:]:
    own = [0, *range(place, place + span)]
    header = [table.header[i] for i in own]
    rows = [[row[i] for i in own] for row in table.rows]
    notes = table.notes if place + span == len(table.header) else ()
    tables.append(_rich(f"{table.title}; {name}", header, rows, notes))
    place += span
  return tables


def _rich(title, header, rows, notes) -> rich.table.Table:
  result = rich.table.Table(title=_escaped(title), title_justify="left")
  if notes:
    result.caption = _escaped(" ".join(notes))
    result.caption_justify = "left"
  for name, *column in zip(header, *rows, strict=True):
    words = any(cell[:1].isalpha() for cell in column)
    result.add_column(_escaped(name), justify="left" if words else "right")
  last = len(rows) - 1 if rows and rows[-1][0] == "All" else 0
  for i, row in enumerate(rows, 1):
    result.add_row(*map(_escaped, row), end_section=i == last)
  return result


def _escaped(name: str) -> str:
  return rich.markup.escape(fragments.plain(name))


def names(table: Table) -> list[str]:
  """Returns the header, each name after its group's."""
  spread = [name for name, span in table.groups for _ in range(span)]
  spread = spread or [""] * len(table.header)
  return [
    f"{group} {name}".strip()
    for group, name in zip(spread, table.header, strict=True)
  ]
