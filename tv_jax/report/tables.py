"""The tables of a run: from the lines of its items to rows of text.

Nothing about speed is in these, so that they are the same to the byte whenever
the same items are there.
"""

from __future__ import annotations

import collections
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from tv_jax import metrics
from tv_jax.metrics import Cell, Estimate

PLAIN = "plain"
# Spec-Bench's six, in the paper's order and under its names.
TASKS = {
  "mt_bench": "Multi-turn",
  "translation": "Translation",
  "summarization": "Sum.",
  "qa": "QA",
  "math_reasoning": "Math",
  "rag": "RAG",
}
ALL = "all"
NOTHING = "\u2013"

DEFINITIONS = (
  "Acceptance length: tokens gained in a cycle, the bonus token included,"
  " before an end token or the limit cuts. By item (the paper's): in each"
  " question first, its turns and seeds pooled, then over questions. By token"
  " (Spec-Bench's): over all cycles.",
  "±: the standard error over questions, ddof 1; by token and for what is"
  " expected, clustered by question.",
  "Delta: the relative gain of separate runs over the baseline's.",
  "Expected: what a rule expects to gain in a cycle, given the draft; no coin"
  " is tossed. Same drafts: its excess over the baseline's expectation on the"
  " very same drafts. It is one cycle's gain in the contexts that the running"
  " rule comes to, not a difference of long-run averages.",
  "Check: realised less expected length, by cycle; 0 within its error, or there"
  " is a bug.",
  "Exact match: the share of answers whose last line is the reference.",
)


class Table(NamedTuple):
  """A table as text; the first column names the rows."""

  title: str
  groups: list[tuple[str, int]]  # what stands over columns, from the left
  header: list[str]
  rows: list[list[str]]
  notes: tuple[str, ...] = ()  # what must be said right below it


class Way(NamedTuple):
  """How trees were drawn, and from how hot a law."""

  proposal: str
  temperature: float

  def __str__(self) -> str:
    """For a title."""
    return f"{self.proposal}, temperature {self.temperature:g}"


def cells(items: Iterable[dict], config: dict) -> dict[tuple, Cell]:
  """By (task, tree, proposal, verifier, temperature); task ALL for all.

  Args:
    items: Lines of a store.
    config: The run's, in whose order cells come; plain decoding comes first.

  Returns:
    The cells.
  """
  grouped = collections.defaultdict(list)
  for item in items:
    names = tuple(item[k] for k in ("tree", "proposal", "verifier"))
    # Once, where a category is called so, too.
    for task in dict.fromkeys((item["task"], ALL)):
      grouped[(task, *names, item["temperature"])].append(item)
  names = ("trees", "proposals", "verifiers", "temperatures")
  orders = [[*TASKS], *(config[name] for name in names)]

  def place(key):
    # What is in no list comes first; but such tasks come last, ALL at the end.
    task, tree, proposal, verifier, temperature = key
    values = (task, tree, proposal, verifier, temperature)
    places = [
      order.index(value) if value in order else -1
      for order, value in zip(orders, values, strict=True)
    ]
    other = (len(TASKS) + (task == ALL), task)
    first = (places[0], task) if task in TASKS else other
    return first, places[2], places[4], places[1], places[3]

  return {
    key: metrics.cell(grouped[key], config["baseline"])
    for key in sorted(grouped, key=place)
  }


def ways(found: dict[tuple, Cell]) -> list[Way]:
  """The proposals and temperatures of all speculative cells."""
  return list(
    dict.fromkeys(
      Way(proposal, temperature)
      for _, _, proposal, verifier, temperature in found
      if verifier != PLAIN
    )
  )


def main(found: dict[tuple, Cell], way: Way, baseline: str) -> Table:
  """The paper's main table: acceptance by item, trees side by side."""
  trees = _trees(found, way)
  groups, header = [("", 1)], ["task"]
  for tree, rules in trees.items():
    others = [rule for rule in rules if rule != baseline]
    compared = others if baseline in rules else []
    groups.append((tree, len(rules) + len(compared)))
    header += [*rules, *(_delta(rule, compared) for rule in compared)]
  rows = []
  for task in _tasks(found):
    row = ["All" if task == ALL else TASKS.get(task, task)]
    for tree, rules in trees.items():
      own = {rule: _get(found, task, tree, way, rule) for rule in rules}
      row += [estimate(own[rule] and own[rule].by_item) for rule in rules]
      if baseline in rules:
        base = own[baseline]
        row += [_percent(own[r], base) for r in rules if r != baseline]
    rows.append(row)
  return Table(f"Acceptance length by item: {way}", groups, header, rows)


def paired(found: dict[tuple, Cell], way: Way, baseline: str) -> Table:
  """What every rule expects, its gain on the same drafts, and the check."""
  header = [
    "tree",
    "verifier",
    "by token",
    "expected",
    f"less {baseline}, same drafts",
    "relative",
    "check",
    "items",
    "cycles",
  ]
  rows, silent = [], {}
  for tree, rules in _trees(found, way).items():
    for rule in rules:
      cell = _get(found, ALL, tree, way, rule)
      relative = NOTHING
      if cell.cycles and cell.expected is None:
        silent[rule] = None
      if cell.gain and cell.expected:
        base = cell.expected.mean - cell.gain.mean
        relative = f"{cell.gain.mean / base:+.2%}"
      rows.append(
        [
          tree,
          rule,
          estimate(cell.by_token, ".3f"),
          estimate(cell.expected, ".3f"),
          estimate(cell.gain, "+.3f"),
          relative,
          estimate(cell.check, "+.3f"),
          str(cell.items),
          str(cell.cycles),
        ]
      )
  notes = tuple(
    f"{rule} has no stop law, so that nothing is expected of a draft without"
    " tossing coins: give a Verifier(decide=.., stop_law=..) and name that"
    " (docs/new-verifier.md, section 5)."
    for rule in silent
  )
  return Table(f"The same drafts: {way}", [], header, rows, notes)


def exact_match(found: dict[tuple, Cell]) -> Table | None:
  """Right answers by task; None if nothing has a reference."""
  tasks = _tasks(found)
  rows, several = [], len(ways(found)) > 1
  for method in dict.fromkeys(key[1:] for key in found):
    own = [found.get((task, *method)) for task in tasks]
    shares = [cell and cell.exact_match for cell in own]
    if any(shares):
      row = [estimate(share, ".2f") for share in shares]
      rows.append([method_name(*method, several), *row])
  header = ["", *(TASKS.get(task, "All") for task in tasks)]
  return Table("Exact match", [], header, rows) if rows else None


def method_name(tree, proposal, rule, temperature, several: bool) -> str:
  """A row's name; `several` is whether there are several ways to draw."""
  name = rule if rule == PLAIN else f"{rule}, {tree}"
  if several and rule != PLAIN:
    name += f", {proposal}"
  return f"{name}, T = {temperature:g}" if several else name


def estimate(value: Estimate | None, spec: str = ".2f") -> str:
  """A cell's text."""
  if value is None or value.n == 0:
    return NOTHING
  return f"{value:{spec}}"


def _trees(found, way) -> dict[str, list[str]]:
  """The trees, and the rules on each."""
  result = collections.defaultdict(list)
  for task, tree, proposal, rule, temperature in found:
    if task == ALL and rule != PLAIN and way == (proposal, temperature):
      result[tree].append(rule)
  return dict(result)


def _tasks(found) -> Sequence[str]:
  return list(dict.fromkeys(task for task, *_ in found))


def _get(found, task, tree, way, rule) -> Cell | None:
  return found.get((task, tree, way.proposal, rule, way.temperature))


def _delta(rule, compared) -> str:
  return "Delta" if len(compared) == 1 else f"Delta {rule}"


def _percent(cell, base) -> str:
  if cell is None or base is None or not base.by_item.n or not cell.by_item.n:
    return NOTHING
  return f"{cell.by_item.mean / base.by_item.mean - 1:+.1%}"
