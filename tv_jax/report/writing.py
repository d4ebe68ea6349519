"""The report of a run: every file of it, from what is in its folder."""

from __future__ import annotations

import os
import pathlib
from typing import NamedTuple

from tv_jax import metrics, store
from tv_jax.metrics import Cell, Estimate
from tv_jax.report import formats, fragments, page, plots, speed, tables, walks
from tv_jax.report.tables import Table
from tv_jax.store import runs

_ESTIMATES = {
  "acceptance_by_item": "by_item",
  "acceptance_by_token": "by_token",
  "expected": "expected",
  "exact_match": "exact_match",
  "gain": "gain",
  "check": "check",
}
_COUNTS = ("cycles", "faults", "failed")
_PLOTS = {
  "acceptance": (plots.acceptance_by_task, "Tokens gained in a cycle."),
  "lengths": (plots.length_histograms, "How many tokens cycles gained."),
  "depths": (plots.acceptance_by_depth, "How deep drafts were accepted."),
}


class Report(NamedTuple):
  """What was written, and what there is to print of it."""

  page: pathlib.Path
  tables: list[Table]
  definitions: tuple[str, ...]  # of what stands in the tables
  warnings: list[str]
  complete: bool
  all_failed: bool  # there is no answer but errors


def write(folder: str | os.PathLike) -> Report:
  """Writes a run's tables, plots and page into its folder.

  Args:
    folder: A run's, finished or not; it is only read but for the report.

  Returns:
    The report.

  Raises:
    ValueError: The folder holds no run, or no answers yet.
    OSError: It cannot be written to.
  """
  folder = pathlib.Path(folder)
  unit = runs.read(folder)
  if not unit.items:
    raise ValueError(f"{folder}: there are no answers yet to report on")
  baseline = unit.config["baseline"]
  found = tables.cells(unit.items, unit.config)
  ways = tables.ways(found)
  made = [
    table
    for way in ways
    for table in (
      tables.main(found, way, baseline),
      tables.paired(found, way, baseline),
    )
  ]
  match = tables.exact_match(found)
  made += [match] if match else []
  warnings = _warnings(unit, found)
  files = {
    "cells.csv": _cells_csv(found),
    "table.md": _markdown(made, warnings),
    "table.csv": _table_csv(found, ways, baseline),
    "table.tex": "\n".join(
      formats.latex(tables.main(found, way, baseline)) for way in ways
    ),
  }
  drawn = _plots(unit, ways)
  files |= {f"{name}.svg": svg for name, (svg, _) in drawn.items()}
  shown = [*made]
  if unit.timing:
    header, rows = speed.COLUMNS, speed.rows(unit.timing)
    files["timing.csv"] = formats.comma_separated(header, rows)
    shown.append(speed.table(unit.timing))
  files["report.html"] = _page(unit, found, shown, drawn, warnings)
  for name, text in files.items():
    store.write_atomic(folder / name, text)
  definitions = tables.DEFINITIONS + (speed.DEFINITIONS if unit.timing else ())
  return Report(
    page=folder / "report.html",
    tables=shown,
    definitions=definitions,
    warnings=warnings,
    complete=unit.done,
    all_failed=all("error" in item for item in unit.items),
  )


def _warnings(unit, found: dict[tuple, Cell]) -> list[str]:
  """What a reader must know before any number."""
  lines = []
  if not unit.done:
    lines.append(
      f"THE RUN IS NOT FINISHED: {len(unit.items)} answers are there; the same"
      " command continues."
    )
  cells = [(key, cell) for key, cell in found.items() if key[0] == tables.ALL]
  if failed := sum(cell.failed for _, cell in cells):
    why = next(item["error"] for item in unit.items if "error" in item)
    lines.append(f"{failed} ANSWERS FAILED, the first one because: {why}")
  if faults := sum(cell.faults for _, cell in cells):
    lines.append(f"NaN IN {faults} CYCLES: {metrics.FAULT}.")
  reasons, missed = walks.undrawn(_traces(unit))
  if missed:
    lines.append(f"NOT DRAWN in the explorer: {'; '.join(reasons.values())}.")
  for (_, tree, _, rule, _), cell in cells:
    # Of few cycles the error is not known well enough to say so.
    if cell.cycles >= 100 and not _sound(cell.check):
      lines.append(
        f"CHECK FAILED: {rule} on {tree}: realised - expected ="
        f" {cell.check:+.3f}"
      )
  kept = [
    {k: v for k, v in one.items() if k != "date"} for one in unit.environments
  ]
  if len(kept) > 1:
    lines.append(f"Answers are of {len(kept)} environments; see below.")
  return lines


def _traces(unit) -> list[dict]:
  """The items of which trees were kept."""
  return [
    item | {"cycles": item["trace"]} for item in unit.items if "trace" in item
  ]


def _sound(check: Estimate | None) -> bool:
  """Whether realised less expected length is 0, by its error and rounding."""
  return check is None or abs(check.mean) <= 4 * check.error + 1e-4


def _cells_csv(found: dict[tuple, Cell]) -> str:
  header = ["task", "tree", "proposal", "verifier", "temperature"]
  for name in _ESTIMATES:
    header += [name, f"{name}_se", f"{name}_n"]
  rows = [
    [
      *key,
      *(
        value
        for name in _ESTIMATES.values()
        for value in _values(getattr(cell, name))
      ),
      *(getattr(cell, name) for name in _COUNTS),
    ]
    for key, cell in found.items()
  ]
  return formats.comma_separated([*header, *_COUNTS], rows)


def _values(estimate: Estimate | None) -> list:
  """Mean, error and n; what is not known is left empty."""
  if estimate is None or not estimate.n:
    return [None, None, 0]
  error = None if estimate.n < 2 else round(estimate.error, 6)
  return [round(estimate.mean, 6), error, estimate.n]


def _table_csv(found, ways, baseline) -> str:
  made = [tables.main(found, way, baseline) for way in ways]
  header = ["proposal", "temperature"]
  rows = [
    [way.proposal, way.temperature, *row]
    for way, table in zip(ways, made, strict=True)
    for row in table.rows
  ]
  header += formats.names(made[0]) if made else ["task"]
  return formats.comma_separated(header, rows)


def _markdown(made, warnings) -> str:
  lines = [f"**{formats.markdown_text(line)}**\n" for line in warnings]
  lines += map(formats.markdown, made)
  lines += ["### Definitions", "", *(f"- {x}" for x in tables.DEFINITIONS), ""]
  return "\n".join(lines)


def _plots(unit, ways) -> dict[str, tuple[str, str]]:
  """SVGs by the file's name, each with its caption."""
  drawn = {}
  for way in ways:
    own = [
      item
      for item in unit.items
      if (item["proposal"], item["temperature"]) == way and "error" not in item
    ]
    for name, (plot, caption) in _PLOTS.items():
      if len(ways) > 1:
        name = f"{name}-{way.proposal}-{way.temperature:g}"
      if own:
        svg = plot(own, unit.config["trees"])
        drawn[name] = svg, f"{caption} Drawn {way}."
  return drawn


def _page(unit, found, shown, drawn, warnings) -> str:
  traces = _traces(unit)
  # The last tree, and a rule that is not the baseline, are what opens.
  traces.sort(
    key=lambda item: (
      -unit.config["trees"].index(item["tree"]),
      item["verifier"] == unit.config["baseline"],
    )
  )
  section = page.Section
  sections = [
    section("tables", "Tables", "".join(map(formats.html, shown))),
    section("explorer", "The trees themselves", page.explorer(traces)),
    section(
      "plots",
      "Plots",
      "".join(
        fragments.figure(svg, caption, name=name)
        for name, (svg, caption) in drawn.items()
      ),
    ),
    section(
      "definitions",
      "Definitions",
      "".join(
        map(fragments.paragraph, (*tables.DEFINITIONS, *speed.DEFINITIONS))
      ),
    ),
    section(
      "settings",
      "Config and environment",
      fragments.definitions(unit.config, caption="Config")
      + "".join(
        fragments.definitions(one, caption="Environment")
        for one in unit.environments
      ),
    ),
  ]
  return page.page(
    title=f"tv_jax: {unit.config['experiment']}",
    lead=[*warnings, _lead(unit)],
    figures=_figures(found, unit),
    sections=sections,
  )


def _lead(unit) -> str:
  models, questions = unit.config["models"], {i["question"] for i in unit.items}
  return (
    f"{models['target']} with {models['draft']} ({models['draft_kind']}), on"
    f" {len(questions)} questions of {unit.config['questions']}. Every number"
    " but speed is made from the items' lines alone."
  )


def _figures(found, unit) -> list[tuple[str, str]]:
  """The gains that a reader came for, largest first."""
  several = len(tables.ways(found)) > 1
  gains = [
    (cell, rule, f"{tree}, {tables.Way(proposal, t)}" if several else tree)
    for (task, tree, proposal, rule, t), cell in found.items()
    if task == tables.ALL and cell.gain
  ]
  gains.sort(key=lambda one: -one[0].gain.mean)
  figures = [
    (
      f"{cell.gain:+.3f}",
      f"tokens a cycle: {rule} over {unit.config['baseline']} on the same"
      f" drafts, {tree}",
    )
    for cell, rule, tree in gains[:3]
  ]
  if unit.timing:
    rows = [row for row in speed.rows(unit.timing) if row[5] is not None]
    best = max(rows, key=lambda row: row[5], default=None)
    if best:
      name = tables.method_name(*best[:4], several)
      figures.append((f"{best[4]:.0f}/s", f"tokens at batch 1: {name}"))
  return figures
