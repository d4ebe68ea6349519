"""The report of a run: every file of it, from what is in its folder."""

import os
import pathlib
from typing import NamedTuple

from tv_jax.edge import disk
from tv_jax.engine import estimates
from tv_jax.engine.estimates import Estimate
from tv_jax.runs import records, store
from tv_jax.runs.report import formats, fragments, page, plots, speed, tables
from tv_jax.runs.report.tables import ALL, Cells, Table

_ESTIMATES = {
  "acceptance_by_item": "by_item",
  "acceptance_by_token": "by_token",
  "drafted": "drafted",
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
  """Writes a run's tables, plots and page into its folder, finished or not.

  Raises:
    ValueError: The folder holds no run, or no answers yet.
    OSError: It cannot be written to.
  """
  folder = pathlib.Path(folder)
  unit = store.read(folder)
  if not unit.items:
    raise ValueError(f"{folder}: there are no answers yet to report on")
  baseline = unit.config["baseline"]
  found = tables.cells(unit.items, unit.config)
  conditions = tables.conditions(found[ALL])
  main = [tables.main(found, one, baseline) for one in conditions]
  made = [
    table
    for one, own in zip(conditions, main, strict=True)
    for table in (
      own,
      tables.paired(found, one, baseline),
      tables.positions(found, one),
    )
  ]
  match = tables.exact_match(found)
  made += [match] if match else []
  warnings = _warnings(unit, found)
  files = {
    "cells.csv": _cells_csv(found),
    "positions.csv": _positions_csv(found),
    "table.md": _markdown(made, warnings),
    "table.csv": _table_csv(conditions, main),
    "table.tex": "\n".join(map(formats.latex, main)),
  }
  drawn = _plots(unit, conditions)
  files |= {f"{name}.svg": svg for name, (svg, _) in drawn.items()}
  shown, speeds = [*made], {}
  if unit.timing:
    gains = {one: cell.relative for one, cell in found[ALL].items()}
    speeds = speed.speeds(unit.timing, baseline, gains)
    files["timing.csv"] = speed.comma_separated(speeds)
    shown += speed.made(speeds)
  files["report.html"] = _page(unit, found, shown, speeds, drawn, warnings)
  for name, text in files.items():
    disk.write_atomic(folder / name, text)
  definitions = tables.DEFINITIONS + (speed.DEFINITIONS if unit.timing else ())
  return Report(
    page=folder / "report.html",
    tables=shown,
    definitions=definitions,
    warnings=warnings,
    complete=unit.done,
    all_failed=all(item.error is not None for item in unit.items),
  )


def _warnings(unit, found: Cells) -> list[str]:
  """What a reader must know before any number."""
  lines = []
  if not unit.done:
    lines.append(
      f"THE RUN IS NOT FINISHED: {len(unit.items)} answers are there; the same"
      " command continues."
    )
  cells = found[ALL].values()
  if failed := sum(cell.failed for cell in cells):
    why = next(item.error for item in unit.items if item.error is not None)
    lines.append(f"{failed} ANSWERS FAILED, the first one because: {why}")
  if faults := sum(cell.faults for cell in cells):
    lines.append(f"FAULTS IN {faults} CYCLES: {estimates.FAULT}.")
  lines += [
    f"NOTHING WAS DRAFTED in any cycle of {method}: {estimates.IDLE}."
    for method, cell in found[ALL].items()
    if not (method.plain or cell.faults)
    and cell.drafted
    and not cell.drafted.mean
  ]
  # Here, as it imports jax: tables do without.
  from tv_jax.runs.report import walks

  reasons, missed = walks.undrawn(_traces(unit))
  if missed:
    lines.append(f"NOT DRAWN in the explorer: {'; '.join(reasons.values())}.")
  for method, cell in found[ALL].items():
    # Of few cycles the error is not known well enough to say so.
    if cell.cycles >= 100 and not _sound(cell.check):
      lines.append(
        f"CHECK FAILED: {method.verifier} on {method.tree}: realised - expected"
        f" = {cell.check:+.3f}"
      )
  if (kept := len(unit.environments)) > 1:
    lines.append(f"Answers are of {kept} environments; see below.")
  return lines


def _traces(unit) -> list[dict]:
  """What the explorer shows of the answers of which trees were kept."""
  return [
    item.key.fields | {"prompt": item.prompt, "cycles": item.trace}
    for item in unit.items
    if item.trace is not None
  ]


def _sound(check: Estimate | None) -> bool:
  """Whether realised less expected length is 0, by its error and rounding."""
  return check is None or abs(check.mean) <= 4 * check.error + 1e-4


def _cells_csv(found: Cells) -> str:
  header = ["task", *tables.AXES]
  for name in _ESTIMATES:
    header += [name, f"{name}_se", f"{name}_n"]
  rows = [
    [
      task,
      *method.fields.values(),
      *(
        value
        for name in _ESTIMATES.values()
        for value in _values(getattr(cell, name))
      ),
      *(getattr(cell, name) for name in _COUNTS),
    ]
    for task, by_method in found.items()
    for method, cell in by_method.items()
  ]
  return formats.comma_separated([*header, *_COUNTS], rows)


def _positions_csv(found: Cells) -> str:
  header = ["task", *tables.AXES, "position"]
  for share in ("reached", "conditional"):
    header += [share, f"{share}_se", f"{share}_n"]
  rows = [
    [task, *method.fields.values(), d, *_values(here), *_values(given)]
    for task, by_method in found.items()
    for method, cell in by_method.items()
    for d, (here, given) in enumerate(
      zip(cell.reached, cell.conditional, strict=True), 1
    )
  ]
  return formats.comma_separated(header, rows)


def _values(estimate: Estimate | None) -> list:
  """Mean, error and n; what is not known is left empty."""
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
  """SVGs by the file's name, each with its caption."""
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


def _page(unit, found, shown, speeds, drawn, warnings) -> str:
  traces = _traces(unit)
  # The last tree, and a rule that is not the baseline, are what opens.
  traces.sort(
    key=lambda item: (
      -unit.config["trees"].index(item["tree"]),
      item["verifier"] == unit.config["baseline"],
    )
  )
  plotted = [
    fragments.figure(svg, caption, name=name)
    for name, (svg, caption) in drawn.items()
  ]
  defined = (*tables.DEFINITIONS, *speed.DEFINITIONS)
  settings = [("Config", unit.config)]
  settings += [("Environment", one) for one in unit.environments]
  sections = {
    ("tables", "Tables"): map(formats.html, shown),
    ("explorer", "The trees themselves"): [page.explorer(traces)],
    ("plots", "Plots"): plotted,
    ("definitions", "Definitions"): map(fragments.paragraph, defined),
    ("settings", "Config and environment"): [
      fragments.definitions(values, caption=caption)
      for caption, values in settings
    ],
  }
  return page.render(
    title=_title(unit),
    lead=[*warnings, _lead(unit)],
    figures=_figures(unit, found, speeds),
    sections=[
      page.Section(name, heading, "".join(parts))
      for (name, heading), parts in sections.items()
    ],
  )


def _title(unit) -> str:
  """Which run it is, among the pages that a reader has open."""
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
  if models.get("dtype") == "int8":
    kind += ", weights of eight bits"
  return (
    f"{models['target']} with {models['draft']} ({kind}), on {len(questions)}"
    f" questions of {unit.config['questions']}. Every number but speed is made"
    " from the items' lines alone."
  )


def _figures(unit, found, speeds) -> list[tuple[str, str]]:
  """The gains that a reader came for, largest first."""
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
    best = max(ups, key=ups.get)
    name = f"tokens at batch 1: {tables.name(best, several)}"
    figures.append((f"{speeds[best]['tokens_per_second']:.0f}/s", name))
  return figures
