"""Makes the HTML of the page's sections; escapes everything it is given."""

import html
import json
import math
import re
from collections.abc import Iterable, Mapping, Sequence

from tv_jax.runs.report import palette

NOTHING = "\u2013"  # a dash, for a cell with nothing to say


def escape(text) -> str:
  """Returns any text as HTML that shows it."""
  sound = str(text).encode("utf-8", "replace").decode("utf-8")
  return html.escape(sound.replace("\0", "\ufffd"))


def plain(text: str) -> str:
  """Returns a text on one line; characters without a glyph become escapes."""
  text = text.encode("utf-8", "backslashreplace").decode()
  return "".join(
    one if one.isprintable() else one.encode("unicode_escape").decode()
    for one in text
  )


def paragraph(text: str) -> str:
  """Returns a paragraph of text."""
  return f"<p>{escape(text)}</p>"


def table(
  header: Sequence[str],
  rows: Iterable[Sequence],
  *,
  caption: str,
  groups: Sequence[tuple[str, int]] = (),
) -> str:
  """Returns a table that scrolls sideways where it has no room.

  Args:
    header: The columns' names.
    rows: Their cells; the first of a row is its name, and stays in view.
    caption: What the table shows.
    groups: What stands over columns: (name, how many of them), from the left.

  Returns:
    HTML. Columns of numbers are set flush right.
  """
  rows = [*rows]
  columns = zip(*rows, strict=True) if rows else [()] * len(header)
  kinds = [
    ' class="number"' if place and _is_numeric(column) else ""
    for place, column in enumerate(columns)
  ]
  head = _row(
    f'<th scope="col"{kind}>{escape(name)}</th>'
    for name, kind in zip(header, kinds, strict=True)
  )
  body = []
  for name, *cells in rows:
    data = zip(kinds[1:], map(escape, cells), strict=True)
    named = [f'<th scope="row">{escape(name)}</th>']
    body.append(_row(named + [f"<td{kind}>{cell}</td>" for kind, cell in data]))
  content = (
    f"<table><thead>{_group_row(groups)}{head}</thead>"
    f"<tbody>{''.join(body)}</tbody></table>"
  )
  return _figure('class="table"', caption, _scrolling(content, caption))


def figure(svg: str, caption: str, *, name: str) -> str:
  """Returns an SVG of `plots` in the page's colours, named for links to it."""
  drawing = svg[svg.index("<svg") : svg.rindex("</svg>") + len("</svg>")]
  # In a page its rules would hold for everything, and names are the page's.
  drawing = re.sub(r"<style.*?</style>", "", drawing, flags=re.DOTALL)
  drawing = re.sub(r'\sxmlns(:\w+)?="[^"]*"', "", drawing)
  drawing = re.sub(
    r'\bid="|url\(#|href="#', lambda found: f"{found[0]}{name}-", drawing
  )
  drawing = re.sub(r'(<svg[^>]*?) width="[^"]*" height="[^"]*"', r"\1", drawing)
  label = f'role="img" aria-label="{escape(caption)}" stroke-linejoin="round"'
  drawing = drawing.replace("<svg", f"<svg {label}", 1)
  drawing = _scrolling(palette.follow_the_page(drawing), caption)
  return _figure(f'class="plot" id="{escape(name)}"', caption, drawing)


def definitions(values: Mapping, *, caption: str) -> str:
  """Returns settings or an environment, with a line for each value."""
  lines = [
    f'<tr><th scope="row">{escape(name)}</th><td>{escape(value)}</td></tr>'
    for name, value in _flat(values)
  ]
  kind = 'class="definitions"'
  content = f"<table {kind}><tbody>{''.join(lines)}</tbody></table>"
  return _figure(kind, caption, content)


def embedded(data, name: str) -> str:
  """Returns data for a script, as JSON that no text can end; NaN is null."""
  text = json.dumps(_finite(data), separators=(",", ":"), allow_nan=False)
  text = text.replace("<", "\\u003c")
  return f'<script type="application/json" id="{name}">{text}</script>'


def _figure(attributes, caption, content):
  return (
    f"<figure {attributes}><figcaption>{escape(caption)}</figcaption>{content}"
    "</figure>"
  )


def _row(cells):
  return f"<tr>{''.join(cells)}</tr>"


def _group_row(groups):
  """Returns the line above the columns' names."""
  if not groups:
    return ""
  return _row(
    f'<th class="group" colspan="{span}" scope="colgroup">{escape(name)}</th>'
    if name
    else f'<td colspan="{span}"></td>'
    for name, span in groups
  )


def _scrolling(content, label):
  return (
    f'<div class="scroll" tabindex="0" role="region"'
    f' aria-label="{escape(label)}">{content}</div>'
  )


def _is_numeric(cells):
  """Returns whether all cells with a text begin like a number."""
  said = [cell for cell in cells if cell not in ("", "-", NOTHING)]
  return bool(said) and all(
    re.match(r"[+\-\u2212<]?\s*\d", cell) for cell in said
  )


def _flat(values, above=""):
  for name, value in values.items():
    if isinstance(value, Mapping) and value:
      yield from _flat(value, f"{above}{name}.")
    elif isinstance(value, str):
      yield above + name, value
    elif isinstance(value, Sequence):
      yield above + name, ", ".join(map(str, value)) or NOTHING
    else:
      yield above + name, NOTHING if value is None else value


def _finite(data):
  if isinstance(data, Mapping):
    return {key: _finite(value) for key, value in data.items()}
  if isinstance(data, list | tuple):
    return [_finite(value) for value in data]
  return None if isinstance(data, float) and not math.isfinite(data) else data
