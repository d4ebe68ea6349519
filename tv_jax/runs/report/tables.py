"""Makes a run's tables from its answers, without speeds.

The same answers therefore give the same bytes.
"""

from __future__ import annotations

import math
from collections.abc import Iterable

from tv_jax.engine.results import Estimate
from tv_jax.io.tables import NOTHING, Table, comma_separated
from tv_jax.runs import metrics, records
from tv_jax.runs.metrics import Cell
from tv_jax.runs.records import ALL, Method
from tv_jax.runs.store import StoredRun

# The cell of a task, which may be ALL, and of a method, whose seed is None.
Cells = dict[str, dict[Method, Cell]]

AXES = tuple(name for name in records.AXES if name != "seed")

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

# Spec-Bench's six tasks, in the paper's order and under its names. In a run
# with other tasks the names stay as they are.
TASKS = {
  "mt_bench": "Multi-turn",
  "translation": "Translation",
  "summarization": "Sum.",
  "qa": "QA",
  "math_reasoning": "Math",
  "rag": "RAG",
}
DEFINITIONS = (
  "Acceptance length: tokens gained per cycle. The bonus token counts; an end"
  " token or the limit cuts only afterwards. By item (the paper): the mean of"
  " each question first (its turns pooled, then the mean over its seeds), then"
  " over questions. By token (Spec-Bench): the mean over all cycles, which"
  " engines print as 1 + accepted / drafts. docs/definitions.md compares"
  " systems.",
  "By position: reached d is the share of cycles that accept at least d drafted"
  " tokens; conditional d is that share among the cycles that accept d - 1."
  " Drafted: nodes that a cycle really drafted, without the root.",
  "±: one standard error over questions (ddof 1). For means over cycles it is"
  " clustered by question.",
  "Expected: the acceptance length that a rule expects on a given draft,"
  " computed without sampling. Same drafts: how much more the rule expects than"
  " the baseline on the same drafts. This is the gain of one cycle in the"
  " contexts that the running rule reaches, not a difference of long runs."
  " Gain: the same in percent of what the baseline expects.",
  "Check: realised minus expected length, by cycle. It must be 0 within its"
  " error. More than four errors from 0 is a bug.",
  "Exact match: the share of answers whose last line equals the reference.",
)


def cells_of(unit: StoredRun) -> Cells:
  """Computes a run's cells, in its config's order; plain decoding first."""
  config, grouped = unit.config, {}
  for answer in unit.items:
    method = answer.method.pooled("seed")
    for task in (answer.task, ALL):
      grouped.setdefault(task, {}).setdefault(method, []).append(answer)
  tasks = [*TASKS, *sorted(grouped.keys() - TASKS.keys() - {ALL}), ALL]
  # Trees and rules vary fastest, so the methods of a table are adjacent.
  axes = sorted(AXES, key=lambda axis: axis in ("tree", "verifier"))

  def sort_key(method):
    pairs = ((config.get(f"{axis}s", []), vars(method)[axis]) for axis in axes)
    return [known.index(x) if x in known else -1 for known, x in pairs]

  return {
    task: {
      method: metrics.cell(grouped[task][method], config["baseline"])
      for method in sorted(grouped[task], key=sort_key)
    }
    for task in sorted(grouped, key=tasks.index)
  }


def conditions(methods: Iterable[Method]) -> list[Method]:
  """Returns the condition of each table, in order."""
  drafted = (method for method in methods if not method.plain)
  return [*dict.fromkeys(map(condition, drafted))]


def condition(method: Method) -> Method:
  """Returns the fields that are the same in a method's whole table."""
  return method.pooled("tree", "verifier", "seed")


def under(cells: Cells, fixed: Method) -> dict[Method, Cell]:
  """Returns a condition's methods, tree by tree, with their cells of ALL."""
  return {
    method: cell
    for method, cell in cells[ALL].items()
    if not method.plain and condition(method) == fixed
  }


def main(cells: Cells, fixed: Method, baseline: str) -> Table:
  """Makes the paper's main table: lengths by item, trees side by side."""
  trees: dict[str, dict[str, Method]] = {}
  for method in under(cells, fixed):
    trees.setdefault(str(method.tree), {})[str(method.verifier)] = method
  groups, header = [("", 1)], ["task"]
  columns: list[tuple[Method, str]] = []  # and the field of its cell
  for tree, methods in trees.items():
    others = [rule for rule in methods if rule != baseline]
    others = others if baseline in methods else []
    groups.append((tree, len(methods) + len(others)))
    header += methods
    columns += [(method, "by_item") for method in methods.values()]
    header += [f"gain {x}" if others[1:] else "gain" for x in others]
    columns += [(methods[rule], "relative") for rule in others]
  rows = []
  for task, by_method in zip(_tasks(cells), cells.values(), strict=True):
    rows.append([task])
    for method, field in columns:
      value = getattr(by_method.get(method), field, None)
      text = percent if field == "relative" else estimate
      rows[-1].append(text(value))
  heading = "Acceptance length by item, gains on the same drafts"
  return Table(f"{heading}: {title(fixed)}", groups, header, rows)


def paired(cells: Cells, fixed: Method, baseline: str) -> Table:
  """Makes the table of expected lengths, paired gains and checks."""
  header = ["tree", "verifier", "by item", "by token", "expected"]
  header += [f"minus {baseline}", "gain", "check", "items", "cycles", "drafted"]
  shown = under(cells, fixed)
  rows = [
    [
      str(method.tree),
      str(method.verifier),
      estimate(cell.by_item, ".3f"),
      estimate(cell.by_token, ".3f"),
      estimate(cell.expected, ".3f"),
      estimate(cell.gain, "+.3f"),
      percent(cell.relative),
      estimate(cell.check, "+.3f"),
      str(cell.items),
      str(cell.cycles),
      estimate(cell.drafted, ".1f"),
    ]
    for method, cell in shown.items()
  ]
  silent = dict.fromkeys(
    method.verifier
    for method, cell in shown.items()
    if cell.cycles and cell.expected is None
  )
  notes = tuple(
    f"{rule} has no stopping distribution, and so no expected lengths. To have"
    " them, give a Verifier(offers=..) and name that (docs/new-verifier.md,"
    " section 5)."
    for rule in silent
  )
  return Table(f"The same drafts: {title(fixed)}", [], header, rows, notes)


def positions(cells: Cells, fixed: Method) -> Table:
  """Makes the table of how deep drafts are accepted: shares of cycles."""
  shown, rows = under(cells, fixed), []
  deepest = max(1, *(len(cell.reached) for cell in shown.values()))
  for method, cell in shown.items():
    never = Estimate(mean=0.0, error=0.0, n=cell.items)
    more = deepest - len(cell.reached)
    reached = [*cell.reached, *[never] * more]
    conditional = [*cell.conditional, *[None] * more]
    texts = map(estimate, [*reached, *conditional])
    rows.append([row_name(method, several=False), *texts])
  depths = [str(d) for d in range(1, deepest + 1)]
  groups = [("", 1), ("reached", deepest), ("conditional", deepest)]
  header = ["", *depths, *depths]
  return Table(f"By position: {title(fixed)}", groups, header, rows)


def exact_match(cells: Cells) -> Table | None:
  """Makes the table of right answers; None if nothing has a reference."""
  methods = dict.fromkeys(x for by_method in cells.values() for x in by_method)
  rows, several = [], len(conditions(methods)) > 1
  for method in methods:
    answered = [by_method.get(method) for by_method in cells.values()]
    shares = [cell and cell.exact_match for cell in answered]
    if any(shares):
      row = [estimate(share, ".2f") for share in shares]
      rows.append([row_name(method, several), *row])
  header = ["", *_tasks(cells)]
  return Table("Exact match", [], header, rows) if rows else None


def as_csv(cells: Cells) -> str:
  """Returns cells as CSV, with mean, error and n of each estimate."""
  header, rows = ["task", *AXES], []
  for column in _ESTIMATES:
    header += [column, f"{column}_se", f"{column}_n"]
  for task, by_method in cells.items():
    for method, cell in by_method.items():
      rows.append([task, *method.fields.values()])
      for field in _ESTIMATES.values():
        rows[-1] += _numbers(getattr(cell, field))
      rows[-1] += [getattr(cell, name) for name in _COUNTS]
  return comma_separated([*header, *_COUNTS], rows)


def _numbers(value: Estimate | None) -> list:
  """Returns mean, error and n; None for an unknown number."""
  if value is None or not value.n:
    return [None, None, 0]
  pair = float(value.mean), float(value.error)
  return [*(None if math.isnan(x) else round(x, 6) for x in pair), value.n]


def title(fixed: Method) -> str:
  """Returns a condition in words, as "without_replacement, T = 1"."""
  return ", ".join([str(fixed.proposal), *fixed.conditions])


def row_name(method: Method, several: bool) -> str:
  """Returns a row's name; `several`: whether there are several conditions."""
  parts = [str(method.verifier)]
  if not method.plain:
    parts += [str(method.tree), str(method.proposal)][: 1 + several]
  return ", ".join(parts + method.conditions * several)


def estimate(value: Estimate | None, spec: str = ".2f") -> str:
  """Returns a cell's text, as 3.21 ± 0.02."""
  return f"{value:{spec}}" if value and value.n else NOTHING


def percent(value: Estimate | None, spec: str = "+.2f") -> str:
  """Returns a cell's text, as +2.81 ± 0.30 %."""
  return NOTHING if value is None else f"{value:{spec}} %"


def _tasks(cells: Cells) -> list[str]:
  names = {ALL: "All"} | (TASKS if {*cells} <= {*TASKS, ALL} else {})
  return [str(names.get(task, task)) for task in cells]
