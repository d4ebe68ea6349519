"""Comparisons of rules that several experiments make."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence

import numpy as np

from experiments.experiment import Group
from tv_jax.engine.results import Estimate
from tv_jax.runs import metrics
from tv_jax.runs.metrics import Cell, Times
from tv_jax.runs.records import PLAIN, Answer, Method
from tv_jax.runs.report import tables

ByItem = Mapping[int | str, float]


def rules(group: Group) -> list[str]:
  """Returns the baseline, and the other rules of a group's runs."""
  ran = (rule for unit in group.units for rule in unit.config["verifiers"])
  return [*dict.fromkeys([group.config["baseline"], *ran])]


def places(group: Group) -> list[Method]:
  """Returns each tree, proposal and temperature, as the configs have them."""
  trees = [tree for unit in group.units for tree in unit.config["trees"]]
  methods = {
    answer.method.pooled("verifier", "seed")
    for answer in group.answers
    if not answer.method.plain
  }
  return sorted(
    methods, key=lambda m: (trees.index(m.tree), m.proposal, m.temperature)
  )


def answers_of(answers: Iterable[Answer], method: Method) -> list[Answer]:
  """Returns a method's answers; a field that is None stands for all."""
  wanted = method.fields.items()
  return [item for item in answers if wanted <= item.method.fields.items()]


def compare(
  answers: Iterable[Answer], rules: Sequence[str]
) -> dict[str, Cell | None]:
  """Returns a cell for each rule, None where it has no answer.

  Gains are over the first rule, on the same drafts.
  """
  answers = [*answers]
  by_rule = {rule: answers_of(answers, Method(verifier=rule)) for rule in rules}
  return {
    rule: metrics.cell(answers, rules[0]) if answers else None
    for rule, answers in by_rule.items()
  }


def relative_length(ours: ByItem, theirs: ByItem) -> Estimate | None:
  """Divides lengths by others, paired by question: in percent above 1."""
  both = sorted({*ours} & {*theirs})
  if not both:
    return None
  lengths, base = (
    np.array([values[item] for item in both]) for values in (ours, theirs)
  )
  return metrics.relative(lengths, base, both)


def times_of(group: Group, place: Method) -> dict[str, Times]:
  """Returns the times of each rule at a place, and of plain decoding.

  They are the first run's that has timed it: times of several runs are not
  compared.
  """
  known = (place, place.undrafted.pooled("verifier"))
  for unit in group.units:
    times = {
      timed["verifier"]: Times.of(timed)
      for timed in (unit.timing or {"methods": []})["methods"]
      if Method.of(timed).pooled("verifier", "seed") in known
    }
    if {*times} - {PLAIN}:
      return times
  return {}


def speedup(times: Times | None, plain: Times | None) -> str:
  """Returns a cell's text, as 1.44 ± 0.05; a dash if it was not timed."""
  if not (times and plain):
    return tables.NOTHING
  return f"{times.speedup(plain):.2f}"


def percent(value: Estimate | None) -> str:
  """Returns a cell's text, as +2.8 ± 0.3 %."""
  return tables.percent(value, "+.1f")


def gains(by_name: Mapping[str, Estimate | None]) -> str:
  """Says how large each gain is and how sure; "" if none is known."""
  return ", ".join(
    f"{percent(gain)} on {name} ({sigmas(gain)})"
    for name, gain in by_name.items()
    if gain
  )


def sigmas(value: Estimate) -> str:
  """Says how sure it is that a number is not 0."""
  if not value.error > 0:
    return "of an error that is not known"
  far = value.mean / value.error
  return "0 within its error, " * (math.fabs(far) < 2) + f"{far:+.1f} sigma"
