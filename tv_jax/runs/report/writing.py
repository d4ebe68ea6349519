"""Writes all files of a run's report from the files in its folder."""

from __future__ import annotations

import os
import pathlib
from typing import NamedTuple

from tv_jax.engine.results import FAULT
from tv_jax.io import disk
from tv_jax.io import tables as formats
from tv_jax.io.errors import UserError
from tv_jax.io.tables import Table
from tv_jax.runs import store
from tv_jax.runs.report import forest, page, speed, tables
from tv_jax.runs.report.tables import ALL, Cells


class Report(NamedTuple):
  """The written report, and its parts to print."""

  page: pathlib.Path
  tables: list[Table]
  definitions: tuple[str, ...]  # of the tables' columns
  warnings: list[str]
  all_failed: bool  # every answer is an error

  def print(self) -> None:
    """Prints the tables, their definitions, and where the page is."""
    console = formats.show(self.tables)
    for line in self.definitions:
      console.print(line, style="dim", markup=False)
    for line in self.warnings:
      console.print(line, style="bold red", markup=False)
    console.print(f"report: {self.page}", soft_wrap=True, markup=False)


def write(folder: str | os.PathLike) -> Report:
  """Writes a run's tables and page into its folder, finished or not.

  Raises:
    ValueError: The folder has no run, or no answers.
  """
  unit = store.read(folder)
  if not unit.items:
    raise UserError(f"{folder}: there are no answers yet to report on")
  baseline, cells = unit.config["baseline"], tables.cells_of(unit)
  shown, for_latex = [], []
  for fixed in tables.conditions(cells[ALL]):
    for_latex += [
      tables.paired(cells, fixed, baseline),
      tables.main(cells, fixed, baseline),
    ]
    shown += [*for_latex[-2:], tables.positions(cells, fixed)]
  if match := tables.exact_match(cells):
    shown.append(match)
  warnings = _warnings(unit, cells)
  files = {
    "cells.csv": tables.as_csv(cells),
    # Without speeds, so that equal answers give equal bytes.
    "table.md": _markdown(shown, warnings),
    "table.tex": "\n".join(map(formats.latex, for_latex)),
  }
  definitions = tables.DEFINITIONS
  if unit.timing and unit.timing["methods"]:
    gains = {method: cell.relative for method, cell in cells[ALL].items()}
    shown.append(speed.table(unit.timing, baseline, gains))
    definitions += speed.DEFINITIONS
  names = unit.config["experiment"], unit.folder.resolve().name
  files["report.html"] = page.render(
    title=", ".join(dict.fromkeys(names)),
    warnings=warnings,
    result=forest.result(cells, baseline),
    plots=forest.plots(cells, baseline),
    lead=_lead(unit),
    tables=shown,
    traces=_traces(unit),
    definitions=definitions,
    settings=[
      ("Config", unit.config),
      *(("Environment", values) for values in unit.environments),
    ],
  )
  for name, text in files.items():
    disk.write_atomic(unit.folder / name, text)
  return Report(
    page=unit.folder / "report.html",
    tables=shown,
    definitions=definitions,
    warnings=warnings,
    all_failed=all(item.error is not None for item in unit.items),
  )


def _warnings(unit: store.StoredRun, cells: Cells) -> list[str]:
  """Returns the warnings that stand before all numbers."""
  lines = []
  if not unit.done:
    lines.append(
      f"THE RUN IS NOT FINISHED: {len(unit.items)} answers are there; the same"
      " command continues."
    )
  by_method = cells[ALL].items()
  if failed := sum(cell.failed for _, cell in by_method):
    why = next(item.error for item in unit.items if item.error is not None)
    lines.append(f"{failed} ANSWERS FAILED, the first one because: {why}")
  if faults := sum(cell.faults for _, cell in by_method):
    lines.append(f"FAULTS IN {faults} CYCLES: {FAULT}.")
  for method, cell in by_method:
    if cell.drafted and not cell.drafted.mean and not cell.faults:
      lines.append(
        f"NOTHING WAS DRAFTED in any cycle of {method}: draft_stop gave no root"
        " a child."
      )
    # With few cycles the error is itself too uncertain for this test.
    check = cell.check if cell.cycles >= 100 else None
    if check and not abs(check.mean) <= 4 * check.error + 1e-4:
      lines.append(
        f"CHECK FAILED: {method}: realised - expected = {check:+.3f}"
      )
  if (kept := len(unit.environments)) > 1:
    lines.append(f"Answers come from {kept} environments; see below.")
  return lines


def _markdown(shown: list[Table], warnings: list[str]) -> str:
  lines = [f"**{formats.markdown_text(line)}**\n" for line in warnings]
  lines += map(formats.markdown, shown)
  lines += ["### Definitions", "", *(f"- {x}" for x in tables.DEFINITIONS), ""]
  return "\n".join(lines)


def _traces(unit: store.StoredRun) -> list[dict]:
  """Returns the traced answers.

  The explorer begins with the first: an answer on the last tree, by a rule
  other than the baseline.
  """
  traced = [item for item in unit.items if item.trace is not None]
  traced.sort(
    key=lambda item: (
      -unit.config["trees"].index(item.method.tree),
      item.method.verifier == unit.config["baseline"],
    )
  )
  return [
    item.fields
    # As text: a browser would round large numbers.
    | {"question": str(item.question)}
    | {"prompt": item.prompt, "cycles": item.trace}
    for item in traced
  ]


def _lead(unit: store.StoredRun) -> str:
  models = unit.config["models"]
  questions = {item.question for item in unit.items}
  return (
    f"{models['target']} with {models['draft'] or 'no draft'}, on"
    f" {len(questions)} questions of {unit.config['questions']}. All numbers"
    " but speeds come from items.jsonl alone."
  )
