"""Makes a run's tables of its answers.

They hold no speeds, so that the same answers give the same bytes.
"""

from __future__ import annotations

from collections.abc import Iterable

from tv_jax.edge.tables import NOTHING, Table
from tv_jax.engine.estimates import Estimate
from tv_jax.runs import metrics, records
from tv_jax.runs.metrics import Cell
from tv_jax.runs.records import ALL, Answer, Method

# By task, with ALL, and by method, with seeds pooled.
Cells = dict[str, dict[Method, Cell]]

AXES = tuple(name for name in records.AXES if name != "seed")
# Each table has one value of these; it shows all trees and rules.
FIXED = tuple(name for name in AXES if name not in ("tree", "verifier"))
_ORDER = (*FIXED, "tree", "verifier")

# Spec-Bench's six tasks, in the paper's order and under its names. A run that
# has other tasks keeps its own names.
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
  " each question first, with its turns and seeds pooled, then the mean over"
  " questions. By token (Spec-Bench): the mean over all cycles, which engines"
  " print as 1 + accepted / drafts. docs/definitions.md compares systems.",
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
  " error; anything else is a bug.",
  "Exact match: the share of answers whose last line equals the reference.",
)


def cells(answers: Iterable[Answer], config: dict) -> Cells:
  """Computes a run's cells, in its config's order; plain decoding first."""
  grouped: dict[str, dict[Method, list[Answer]]] = {}
  for answer in answers:
    method = answer.method.pooled("seed")
    for task in (answer.task, ALL):
      grouped.setdefault(task, {}).setdefault(method, []).append(answer)
  known = [*TASKS, *sorted(grouped.keys() - TASKS.keys() - {ALL}), ALL]

  def place(method):
    values = (
      (vars(method)[name], config.get(f"{name}s", [])) for name in _ORDER
    )
    return [own.index(value) if value in own else -1 for value, own in values]

  return {
    task: {
      method: metrics.cell(grouped[task][method], config["baseline"])
      for method in sorted(grouped[task], key=place)
    }
    for task in sorted(grouped, key=known.index)
  }


def conditions(methods: Iterable[Method]) -> list[Method]:
  """Returns the condition of each table, in order."""
  return [*dict.fromkeys(condition(own) for own in methods if not own.plain)]


def condition(method: Method) -> Method:
  """Returns the fields that all methods of a method's table have in common."""
  return method.pooled("tree", "verifier", "seed")


def main(found: Cells, fixed: Method, baseline: str) -> Table:
  """Makes the paper's main table: lengths by item, trees side by side."""
  trees = _trees(found, fixed)
  groups, header, compared = [("", 1)], ["task"], {}
  for tree, methods in trees.items():
    rules = [str(method.verifier) for method in methods]
    others = [rule for rule in rules if rule != baseline]
    compared[tree] = others if baseline in rules else []
    groups.append((tree, len(rules) + len(compared[tree])))
    header += rules
    several = len(compared[tree]) > 1
    header += [f"gain {rule}" * several or "gain" for rule in compared[tree]]
  rows = []
  for task, by_method in zip(_tasks(found), found.values(), strict=True):
    row = [task]
    for tree, methods in trees.items():
      own = {one.verifier: by_method.get(one) for one in methods}
      row += [estimate(cell and cell.by_item) for cell in own.values()]
      others = (own[rule] for rule in compared[tree])
      row += [percent(cell and cell.relative) for cell in others]
    rows.append(row)
  heading = f"Acceptance length by item: {title(fixed)}"
  return Table(heading, groups, header, rows)


def paired(found: Cells, fixed: Method, baseline: str) -> Table:
  """Makes the table of expected lengths, paired gains and checks."""
  header = [
    "tree",
    "verifier",
    "by item",
    "by token",
    "expected",
    f"less {baseline}",
    "gain",
    "check",
    "items",
    "cycles",
    "drafted",
  ]
  rows, silent = [], {}
  for tree, methods in _trees(found, fixed).items():
    for method in methods:
      cell = found[ALL][method]
      if cell.cycles and cell.expected is None:
        silent[method.verifier] = None
      rows.append(
        [
          tree,
          method.verifier,
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
      )
  notes = tuple(
    f"{rule} has no stop law, and so no expected lengths. To have them, give a"
    " Verifier(offers=..) and name that (docs/new-verifier.md,"
    " section 5)."
    for rule in silent
  )
  return Table(f"The same drafts: {title(fixed)}", [], header, rows, notes)


def positions(found: Cells, fixed: Method) -> Table:
  """Makes the table of how deep drafts are accepted."""
  rows, own = [], found[ALL]
  methods = [
    one for several in _trees(found, fixed).values() for one in several
  ]
  deepest = max([1, *(len(own[method].reached) for method in methods)])
  for method in methods:
    cell = own[method]
    missing = deepest - len(cell.reached)
    never = Estimate(mean=0.0, error=0.0, n=cell.items)
    shares = [*cell.reached, *[never] * missing]
    shares += [*cell.conditional, *[None] * missing]
    rows.append([name(method, several=False), *map(estimate, shares)])
  depths = [str(d) for d in range(1, deepest + 1)]
  groups = [("", 1), ("reached", deepest), ("conditional", deepest)]
  header = ["", *depths, *depths]
  return Table(f"By position: {title(fixed)}", groups, header, rows)


def exact_match(found: Cells) -> Table | None:
  """Makes the table of right answers; None if nothing has a reference."""
  methods = dict.fromkeys(one for own in found.values() for one in own)
  rows, several = [], len(conditions(methods)) > 1
  for method in methods:
    own = [by_method.get(method) for by_method in found.values()]
    shares = [cell and cell.exact_match for cell in own]
    if any(shares):
      row = [estimate(share, ".2f") for share in shares]
      rows.append([name(method, several), *row])
  header = ["", *_tasks(found)]
  return Table("Exact match", [], header, rows) if rows else None


def title(fixed: Method) -> str:
  """Returns a condition in words, as "without_replacement, temperature 1"."""
  proposal, *others = fixed.fields.items()
  told = [f"{axis} {records.text(value)}" for axis, value in others]
  return ", ".join([proposal[1], *told])


def name(method: Method, several: bool) -> str:
  """Returns a row's name; `several`: whether there are several conditions."""
  parts = [str(method.verifier)]
  if not method.plain:
    parts += [str(method.tree), str(method.proposal)][: 1 + several]
  return ", ".join(parts + method.numbers * several)


def estimate(value: Estimate | None, spec: str = ".2f") -> str:
  """Returns a cell's text, as 3.21 ± 0.02."""
  return f"{value:{spec}}" if value and value.n else NOTHING


def percent(value: Estimate | None, spec: str = "+.2f") -> str:
  """Returns a cell's text, as +2.81 ± 0.30 %."""
  return NOTHING if value is None else f"{value:{spec}} %"


def _trees(found, fixed) -> dict[str, list[Method]]:
  """Returns the trees with the methods on each."""
  result = {}
  for method in found[ALL]:
    if not method.plain and condition(method) == fixed:
      result.setdefault(method.tree, []).append(method)
  return result


def _tasks(found) -> list[str]:
  names = {ALL: "All"} | (TASKS if {*found} <= {*TASKS, ALL} else {})
  return [str(names.get(task, task)) for task in found]
