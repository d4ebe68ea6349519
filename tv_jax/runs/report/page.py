"""Renders the page: one HTML file that needs no other file or network."""

from __future__ import annotations

import itertools
import json
import pathlib
from collections.abc import Mapping, Sequence

import jinja2

from tv_jax.runs.records import CONDITION, in_words
from tv_jax.runs.report import figures
from tv_jax.runs.tables import Table

_ASSETS = pathlib.Path(__file__).parent / "assets"


def render(
  *,
  tables: Sequence[Table] = (),
  traces: Sequence[Mapping] = (),
  settings: Sequence[tuple[str, Mapping]] = (),
  **texts,
) -> str:
  """Renders the page, which may be saved and sent as it is.

  Args:
    tables: The tables.
    traces: The explorer's answers: the fields of their keys, "cycles" from
      `asking.explorer_trees`, and optionally "prompt".
    settings: Pairs of a name, and settings or an environment.
    **texts: The rest of page.html: title, warnings, result (a sentence), figure
      (SVG), caption, lead and definitions.
  """
  loader = jinja2.FileSystemLoader(_ASSETS)
  environment = jinja2.Environment(
    loader=loader, autoescape=True, trim_blocks=True, lstrip_blocks=True
  )
  kept = [trace for trace in traces if trace["cycles"]]
  return environment.get_template("page.html").render(
    explorer=_embedded(kept) if kept else "",
    settings=[(name, [*_flat(values)]) for name, values in settings],
    style=(_ASSETS / "page.css").read_text(),
    script=(_ASSETS / "explorer.js").read_text(),
    tables=map(_parts, tables),
    **texts,
  )


def _parts(table: Table) -> dict:
  """Returns the parts of a table that the template writes."""
  columns = table.flat.columns
  pairs = [x if columns.nlevels > 1 else ("", x) for x in columns]
  groups = itertools.groupby(group for group, _ in pairs)
  return {
    "title": table.title,
    "notes": table.notes,
    "groups": [(name, len([*same])) for name, same in groups],
    "grouped": columns.nlevels > 1,
    "header": [name for _, name in pairs],
    "rows": [*table.flat.itertuples(index=False, name=None)],
    "names": table.cells.index.nlevels,
  }


def _embedded(traces: Sequence[Mapping]) -> str:
  """Returns the explorer's data as JSON that is safe inside HTML."""
  rules = {
    rule for x in traces for cycle in x["cycles"] for rule in cycle["stop"]
  }
  axes = "verifier", *CONDITION, "seed"
  names = [in_words(axes, [trace[axis] for axis in axes]) for trace in traces]
  data = {"traces": traces, "runs": names, "colors": figures.colors(rules)}
  return json.dumps(data, allow_nan=False).replace("<", "\\u003c")


def _flat(values: Mapping, above: str = ""):
  """Yields names and values; a group's name is a prefix of its fields."""
  for name, value in values.items():
    if isinstance(value, Mapping):
      yield from _flat(value, f"{above}{name}.")
    elif isinstance(value, list | tuple):
      yield above + name, ", ".join(map(str, value))
    else:
      yield above + name, "" if value is None else str(value)
