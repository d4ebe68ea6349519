"""The table of what a judge thinks, the paper's numbers beside."""

from __future__ import annotations

import json
from collections.abc import Sequence

from experiments import experiment, paper
from experiments.judge.grades import Exam, Row
from tv_jax.runs.records import Method
from tv_jax.runs.report import tables
from tv_jax.runs.report.tables import NOTHING, Table

HEADER = (
  "tree",
  "verifier",
  "rating",
  "less plain",
  "questions",
  "ratings",
  "unparsed",
  "missing",
  "failed",
  "the paper",
)
DEFINITIONS = (
  "Rating: from 1 to 10, the mean over questions, in each over its turns, seeds"
  " and the judge's runs; ± is the standard error over questions (ddof 1). Less"
  " plain: question by question. Unparsed: replies without a rating; missing:"
  " grades that there are not yet; failed: answers that there are not. None of"
  " these is in a mean.",
  "The paper's numbers (arXiv 2505.12398) are Gemini-2.5-Flash's, of"
  " Llama-3.1-8B-Instruct's answers to MT-Bench; of other models they are there"
  " for their pattern alone.",
)


def rendered(
  rows: Sequence[Row], title: str, beside: bool = True
) -> list[Table]:
  """Returns a table for each proposal and temperature.

  Args:
    rows: Of `grades.table`.
    title: What is graded, by whom.
    beside: Whether the paper's numbers are of the same questions.
  """
  methods = [row.method for row in rows]
  fixed = tables.conditions(methods) or [m for m in methods if m.plain]
  return [_table(rows, one, title, beside) for one in fixed]


def _table(rows, fixed: Method, title, beside) -> Table:
  """Returns the methods that differ in tree and rule, and plain decoding."""
  plain = fixed.undrafted.pooled("seed")
  body = [
    [
      NOTHING if row.method.plain else row.method.tree,
      row.method.verifier,
      tables.estimate(row.rating),
      tables.estimate(row.less_plain, "+.2f"),
      str(row.rating.n),
      *(str(n) for n in (row.ratings, row.unparsed, row.missing, row.failed)),
      _theirs(row.method, beside),
    ]
    for row in rows
    if row.method == plain
    or (not row.method.plain and tables.condition(row.method) == fixed)
  ]
  proposal = [] if fixed.plain else [str(fixed.proposal)]
  heading = ", ".join([title, *proposal, *plain.numbers])
  return Table(heading, [], [*HEADER], body)


def _theirs(method: Method, beside: bool) -> str:
  """Returns the paper's rating of the same tree and rule, sampled as it did."""
  value = None
  if beside and method.temperature == 1:
    if method.plain:
      value = paper.PLAIN_QUALITY
    elif method.proposal == "without_replacement":
      own = paper.QUALITY.get(f"{method.tree}", {})
      value = own.get(f"{method.verifier}")
  return NOTHING if value is None else f"{value:.2f}"


# Beside what parts of one grid differ in: a judge may read any of the answers.
_OWN = ("tasks", "per_task", "exact_match")


def groups(pairs: Sequence[tuple[dict, Exam]]) -> list[tuple[dict, list[Exam]]]:
  """Returns the exams of runs that belong together, with a config of theirs."""
  found = {}
  for config, exam in pairs:
    name = json.dumps(experiment.common(config, *_OWN), sort_keys=True)
    found.setdefault(name, (config, []))[1].append(exam)
  return [*found.values()]
