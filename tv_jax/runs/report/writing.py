"""Writes the report of a run: every file of it, from what is in its folder."""

from __future__ import annotations

import dataclasses
import os
import pathlib
from typing import NamedTuple

from tv_jax.edge import disk
from tv_jax.edge import tables as formats
from tv_jax.edge.tables import Table
from tv_jax.engine import estimates
from tv_jax.engine.estimates import Estimate
from tv_jax.runs import records, store
from tv_jax.runs.report import page, plots, speed, tables
from tv_jax.runs.report.tables import ALL, Cells

# Columns of cells.csv, and the fields of a cell that they hold.
_ESTIMATES = {
  "acceptance_by_item": "by_item",
  "acceptance_by_token": "by_token",
  "drafted": "drafted",
  "expected": "expected",
  "exact_match": "exact_match",
  "gain": "gain",
  "gain_percent": "relative",
  "check": "check",
}
_COUNTS = ("cycles", "faults", "failed")
_PLOTS = {
  "acceptance": (plots.acceptance_by_task, "Tokens gained in a cycle."),
  "depths": (plots.acceptance_by_depth, "How deep drafts were accepted."),
}


class Report(NamedTuple):
  """What was written, and what there is to print of it."""

  page: pathlib.Path
  tables: list[Table]
  definitions: tuple[str, ...]  # of the tables' columns
  warnings: list[str]
  all_failed: bool  # there is no answer but errors


def write(folder: str | os.PathLike, baseline: str | None = None) -> Report:
  """Writes a run's tables, plots and page into its folder, finished or not.

  Args:
    folder: The run's.
    baseline: The rule that gains are over; by default the config's.

  Raises:
    ValueError: The folder holds no run, or no answers yet, or these do not say
      what the baseline expects.
  """
  unit = store.read(folder)
  folder = unit.folder
  if not unit.items:
    raise ValueError(f"{folder}: there are no answers yet to report on")
  if baseline:
    unit = _over(unit, baseline)
  baseline = str(unit.config["baseline"])
  cells = tables.cells(unit.items, unit.config)
  made, for_latex = [], []
  conditions = tables.conditions(cells[ALL])
  for one in conditions:
    own = [make(cells, one, baseline) for make in (tables.paired, tables.main)]
    for_latex += own
    made += [*own, tables.positions(cells, one)]
  if match := tables.exact_match(cells):
    made.append(match)
  warnings, drawn = _warnings(unit, cells), _plots(unit, conditions)
  files = {
    "cells.csv": _cells_csv(cells),
    "table.md": _markdown(made, warnings),
    "table.tex": "\n".join(map(formats.latex, for_latex)),
  } | {f"{name}.svg": svg for name, (svg, _) in drawn.items()}
  speeds, definitions = {}, tables.DEFINITIONS
  if unit.timing and unit.timing["methods"]:
    gains = {one: cell.relative for one, cell in cells[ALL].items()}
    speeds = speed.speeds(unit.timing, baseline, gains)
    files["timing.csv"] = speed.as_csv(speeds)
    made += speed.made(speeds)
    definitions += speed.DEFINITIONS
  files["report.html"] = page.render(
    title=_title(unit),
    lead=[*warnings, _lead(unit)],
    key_figures=_key_figures(unit, cells, speeds),
    tables=made,
    traces=_traces(unit),
    plots=[*drawn.values()],
    definitions=definitions,
    settings=[
      ("Config", unit.config),
      *(("Environment", one) for one in unit.environments),
    ],
  )
  for name, text in files.items():
    disk.write_atomic(folder / name, text)
  return Report(
    page=folder / "report.html",
    tables=made,
    definitions=definitions,
    warnings=warnings,
    all_failed=all(item.error is not None for item in unit.items),
  )


def _over(unit: store.Unit, baseline: str) -> store.Unit:
  """Returns the run with another baseline."""
  known = {rule for answer in unit.items for rule in answer.expected}
  if baseline not in known:
    raise ValueError(
      f"{unit.folder}: no answer says what {baseline} expects: give one of"
      f" {', '.join(sorted(known))}"
    )
  return dataclasses.replace(unit, config=unit.config | {"baseline": baseline})


def _warnings(unit, found: Cells) -> list[str]:
  """Returns what a reader must know before any number."""
  lines = []
  if not unit.done:
    lines.append(
      f"THE RUN IS NOT FINISHED: {len(unit.items)} answers are there; the same"
      " command continues."
    )
  cells = found[ALL].items()
  if failed := sum(cell.failed for _, cell in cells):
    why = next(item.error for item in unit.items if item.error is not None)
    lines.append(f"{failed} ANSWERS FAILED, the first one because: {why}")
  if faults := sum(cell.faults for _, cell in cells):
    lines.append(f"FAULTS IN {faults} CYCLES: {estimates.FAULT}.")
  lines += [
    f"NOTHING WAS DRAFTED in any cycle of {method}: {estimates.IDLE}."
    for method, cell in cells
    if not (method.plain or cell.faults)
    and cell.drafted
    and not cell.drafted.mean
  ]
  for method, cell in cells:
    # Of few cycles the error is not known well enough to say so.
    if cell.check and cell.cycles >= 100 and not _is_zero(cell.check):
      lines.append(
        f"CHECK FAILED: {method.verifier} on {method.tree}: realised - expected"
        f" = {cell.check:+.3f}"
      )
  if (kept := len(unit.environments)) > 1:
    lines.append(f"Answers are of {kept} environments; see below.")
  return lines


def _is_zero(check: Estimate) -> bool:
  """Returns whether it is 0 but for its error and rounding."""
  return abs(check.mean) <= 4 * check.error + 1e-4


def _cells_csv(found: Cells) -> str:
  header = ["task", *tables.AXES]
  header += [f"{name}{end}" for name in _ESTIMATES for end in ("", "_se", "_n")]
  rows = []
  for task, by_method in found.items():
    for method, cell in by_method.items():
      row = [task, *method.fields.values()]
      for name in _ESTIMATES.values():
        row += _values(getattr(cell, name))
      rows.append(row + [getattr(cell, name) for name in _COUNTS])
  return formats.comma_separated([*header, *_COUNTS], rows)


def _values(estimate: Estimate | None) -> list:
  """Returns mean, error and n; what is not known is empty."""
  if estimate is None or not estimate.n:
    return [None, None, 0]
  error = None if estimate.n < 2 else round(estimate.error, 6)
  return [round(estimate.mean, 6), error, estimate.n]


def _markdown(made, warnings) -> str:
  lines = [f"**{formats.markdown_text(line)}**\n" for line in warnings]
  lines += map(formats.markdown, made)
  lines += ["### Definitions", "", *(f"- {x}" for x in tables.DEFINITIONS), ""]
  return "\n".join(lines)


def _plots(unit, conditions) -> dict[str, tuple[str, str]]:
  """Draws the plots: by file name, each SVG with its caption."""
  drawn = {}
  for fixed in conditions:
    own = [
      item
      for item in unit.items
      if tables.condition(item.method) == fixed and item.error is None
    ]
    for name, (plot, caption) in _PLOTS.items():
      if len(conditions) > 1:
        values = map(records.text, fixed.fields.values())
        name = "-".join([name, *values])
      if own:
        svg = plot(own, unit.config["trees"])
        drawn[name] = svg, f"{caption} Drawn {tables.title(fixed)}."
  return drawn


def _traces(unit) -> list[dict]:
  """Returns the traced answers; first those of the last tree, which are shown.

  And of these those of a rule that is not the baseline.
  """
  traced = [item for item in unit.items if item.trace is not None]
  traced.sort(
    key=lambda item: (
      -unit.config["trees"].index(item.method.tree),
      item.method.verifier == unit.config["baseline"],
    )
  )
  return [
    item.key.fields
    # As text: a browser rounds large numbers, which name other questions then.
    | {"question": str(item.question)}
    | {"prompt": item.prompt, "cycles": item.trace}
    for item in traced
  ]


def _title(unit) -> str:
  """Returns which run it is: a reader may have several pages open."""
  names = dict.fromkeys([unit.config["experiment"], unit.folder.resolve().name])
  pair = (
    "/".join(pathlib.PurePath(unit.config["models"][side]).parts[-2:])
    for side in ("target", "draft")
  )
  return f"{', '.join(names)}: {' with '.join(pair)}"


def _lead(unit) -> str:
  models = unit.config["models"]
  questions = {item.question for item in unit.items}
  kind = models["draft_kind"]
  return (
    f"{models['target']} with {models['draft']} ({kind}), on {len(questions)}"
    f" questions of {unit.config['questions']}. All numbers but speeds come"
    " from items.jsonl alone."
  )


def _key_figures(unit, found, speeds) -> list[tuple[str, str]]:
  """Returns the largest gains, and the fastest method's speed."""
  several = len(tables.conditions(found[ALL])) > 1
  gains = {one: cell.relative for one, cell in found[ALL].items() if cell.gain}
  figures = []
  for method in sorted(gains, key=lambda one: -gains[one].mean)[:3]:
    what = (
      f"tokens a cycle on the same drafts: {method.verifier} over"
      f" {unit.config['baseline']}, {method.tree}"
    )
    if several:
      what += f", {tables.title(tables.condition(method))}"
    figures.append((tables.percent(gains[method], "+.1f"), what))
  ups = {x: row["speedup"].mean for x, row in speeds.items() if row["speedup"]}
  if ups:
    best = max(ups, key=lambda one: ups[one])
    name = f"tokens at batch 1: {tables.name(best, several)}"
    rate = speeds[best]["tokens_per_second"].mean
    figures.append((f"{rate:.0f}/s", name))
  return figures
