"""Writes the report of a run: every file of it, from what is in its folder."""

import dataclasses
import os
import pathlib
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from tv_jax.edge import disk
from tv_jax.engine import estimates
from tv_jax.engine.estimates import Estimate
from tv_jax.runs import records, store
from tv_jax.runs.report import formats, fragments, page, plots, speed, tables
from tv_jax.runs.report.tables import ALL, Cells, Table

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
  "lengths": (plots.length_histograms, "How many tokens cycles gained."),
  "depths": (plots.acceptance_by_depth, "How deep drafts were accepted."),
}


class Report(NamedTuple):
  """What was written, and what there is to print of it."""

  page: pathlib.Path
  tables: list[Table]
  definitions: tuple[str, ...]  # of the tables' columns
  warnings: list[str]
  complete: bool
  all_failed: bool  # there is no answer but errors


def write(folder: str | os.PathLike, baseline: str | None = None) -> Report:
  """Writes a run's tables, plots and page into its folder, finished or not.

  Args:
    folder: The run's.
    baseline: The rule that gains are over; by default the config's.

  Raises:
    ValueError: The folder holds no run, or no answers yet, or these do not say
      what the baseline expects.
    OSError: It cannot be written to.
  """
  folder = pathlib.Path(folder)
  unit = store.read(folder)
  if not unit.items:
    raise ValueError(f"{folder}: there are no answers yet to report on")
  baseline = baseline or unit.config["baseline"]
  known = {rule for answer in unit.items for rule in answer.expected}
  if baseline != unit.config["baseline"]:
    if baseline not in known:
      raise ValueError(
        f"{folder}: no answer says what {baseline} expects: give one of"
        f" {', '.join(sorted(known))}"
      )
    config = unit.config | {"baseline": baseline}
    unit = dataclasses.replace(unit, config=config)
  found = tables.cells(unit.items, unit.config)
  conditions = tables.conditions(found[ALL])
  main = [tables.main(found, one, baseline) for one in conditions]
  paired = [tables.paired(found, one, baseline) for one in conditions]
  made = []
  for own in zip(conditions, paired, main, strict=True):
    made += [*own[1:], tables.positions(found, own[0])]
  if match := tables.exact_match(found):
    made.append(match)
  traces = [
    item.key.fields
    # As text: a browser rounds large numbers, which name other questions then.
    | {"question": str(item.question)}
    | {"prompt": item.prompt, "cycles": item.trace}
    for item in unit.items
    if item.trace is not None
  ]
  warnings = _warnings(unit, found, traces)
  drawn = _plots(unit, conditions)
  files = {
    "cells.csv": _cells_csv(found),
    "positions.csv": _positions_csv(found),
    "table.md": _markdown(made, warnings),
    "table.csv": _table_csv(conditions, main),
    "table.tex": "\n".join(map(formats.latex, [*paired, *main])),
  } | {f"{name}.svg": svg for name, (svg, _) in drawn.items()}
  speeds = {}
  if unit.timing:
    gains = {one: cell.relative for one, cell in found[ALL].items()}
    speeds = speed.speeds(unit.timing, baseline, gains)
    files["timing.csv"] = speed.comma_separated(speeds)
    made += speed.made(speeds)
  files["report.html"] = page.render(
    title=_title(unit),
    lead=[*warnings, _lead(unit)],
    figures=_key_figures(unit, found, speeds),
    sections=_sections(unit, made, traces, drawn),
  )
  for name, text in files.items():
    disk.write_atomic(folder / name, text)
  return Report(
    page=folder / "report.html",
    tables=made,
    definitions=tables.DEFINITIONS + (speed.DEFINITIONS if unit.timing else ()),
    warnings=warnings,
    complete=unit.done,
    all_failed=all(item.error is not None for item in unit.items),
  )


def _warnings(unit, found: Cells, traces) -> list[str]:
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
  header = ["task", *tables.AXES, *_columns(_ESTIMATES), *_COUNTS]
  rows = []
  for task, by_method in found.items():
    for method, cell in by_method.items():
      row = [task, *method.fields.values()]
      for name in _ESTIMATES.values():
        row += _values(getattr(cell, name))
      rows.append(row + [getattr(cell, name) for name in _COUNTS])
  return formats.comma_separated(header, rows)


def _positions_csv(found: Cells) -> str:
  shares = "reached", "conditional"
  header = ["task", *tables.AXES, "position", *_columns(shares)]
  rows = [
    [task, *method.fields.values(), d, *_values(here), *_values(given)]
    for task, by_method in found.items()
    for method, cell in by_method.items()
    for d, (here, given) in enumerate(
      zip(cell.reached, cell.conditional, strict=True), 1
    )
  ]
  return formats.comma_separated(header, rows)


def _columns(names: Iterable[str]) -> list[str]:
  """Returns the columns of `_values` for each of the names."""
  return [f"{name}{end}" for name in names for end in ("", "_se", "_n")]


def _values(estimate: Estimate | None) -> list:
  """Returns mean, error and n; what is not known is empty."""
  if estimate is None or not estimate.n:
    return [None, None, 0]
  error = None if estimate.n < 2 else round(estimate.error, 6)
  return [round(estimate.mean, 6), error, estimate.n]


def _table_csv(conditions, made) -> str:
  rows = [
    [*fixed.fields.values(), *row]
    for fixed, table in zip(conditions, made, strict=True)
    for row in table.rows
  ]
  columns = formats.names(made[0]) if made else ["task"]
  return formats.comma_separated([*tables.FIXED, *columns], rows)


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


def _sections(unit, made, traces, drawn) -> list[page.Section]:
  # The page opens at the last tree, and at a rule that is not the baseline.
  first = sorted(
    traces,
    key=lambda item: (
      -unit.config["trees"].index(item["tree"]),
      item["verifier"] == unit.config["baseline"],
    ),
  )
  plotted = (
    fragments.figure(svg, caption, name=name)
    for name, (svg, caption) in drawn.items()
  )
  defined = (*tables.DEFINITIONS, *speed.DEFINITIONS)
  settings = [("Config", unit.config)]
  settings += [("Environment", one) for one in unit.environments]
  told = (fragments.definitions(own, caption=name) for name, own in settings)

  def section(name: str, heading: str, parts: Iterable[str]) -> page.Section:
    return page.Section(name, heading, "".join(parts))

  return [
    section("tables", "Tables", map(formats.html, made)),
    section("explorer", "The trees themselves", [page.explorer(first)]),
    section("plots", "Plots", plotted),
    section("definitions", "Definitions", map(fragments.paragraph, defined)),
    section("settings", "Config and environment", told),
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


def _key_figures(unit, found, speeds) -> Sequence[tuple[str, str]]:
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
  ups = {one: row["speedup"] for one, row in speeds.items() if row["speedup"]}
  if ups:
    best = max(ups, key=lambda one: ups[one])
    name = f"tokens at batch 1: {tables.name(best, several)}"
    figures.append((f"{speeds[best]['tokens_per_second']:.0f}/s", name))
  return figures
