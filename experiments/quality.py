"""The paper's table of quality, and beside it what needs no judge.

  python -m experiments.quality
  python -m experiments.judge runs/experiments/quality --judge_url=URL \
    --judge_model=MODEL --judge_key=NAME
  python -m experiments.quality

Exact match: the share of right answers of each rule minus plain decoding's,
paired by question, with a 95 % interval. The second command asks a judge for
ratings, the third shows them.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from experiments import command, comparing, experiment
from experiments.experiment import Artefact, Group
from experiments.judge import grades, rendering
from tv_jax.engine.estimates import Estimate
from tv_jax.runs import metrics
from tv_jax.runs.records import Answer, Method
from tv_jax.runs.report import tables
from tv_jax.runs.report.tables import NOTHING, Table

HEADER = ("rule", "tree", "exact match", "less plain", "95 %", "questions")
SIGMAS = 1.96  # 95 % of a normal law
NOTE = (
  "Exact match: the share of answers whose last line equals the reference, by"
  " question with turns and seeds pooled. Less plain: the paired difference"
  " from plain decoding."
)


class Share(NamedTuple):
  """Right answers of a method."""

  method: Method
  own: Estimate | None  # over questions
  less_plain: Estimate | None  # over the questions that both answered


def render(groups: Sequence[Group]) -> Artefact:
  """Makes a table of each group's exact matches, and one for each judge."""
  made = Artefact()
  for group in groups:
    shares = exact_match(group.answers)
    made.tables.append(_table(group, shares))
    made.reading += _reading(group, shares)
    judged = _judged(group)
    made.tables += judged
    if not judged:
      made.reading.append(
        f"{group.name}: no judge has rated these answers"
        " (python -m experiments.judge)."
      )
    made.notes += comparing.notes(group)
  made.notes += [NOTE, *rendering.DEFINITIONS]
  return made


def exact_match(answers: Sequence[Answer]) -> list[Share]:
  """Returns the share of right answers by method, plain decoding first."""
  given: dict[Method, list[Answer]] = {}
  for answer in answers:
    given.setdefault(answer.method.pooled("seed"), []).append(answer)
  shares = {method: metrics.right(own) for method, own in given.items()}
  found = []
  for method in sorted(shares, key=lambda one: not one.plain):
    own, plain = shares[method], shares.get(method.undrafted, {})
    both = sorted(own.keys() & plain.keys())
    less = None
    if both and not method.plain:
      less = Estimate.of([own[one] - plain[one] for one in both])
    share = Estimate.of([*own.values()]) if own else None
    found.append(Share(method, share, less))
  return found


def _table(group, shares) -> Table:
  rows = []
  for method, own, less in shares:
    interval = NOTHING
    if less and less.n > 1:
      ends = [less.mean + sign * SIGMAS * less.error for sign in (-1, 1)]
      interval = " to ".join(f"{100 * end:+.1f}" for end in ends)
    rows.append(
      [
        method.verifier,
        NOTHING if method.plain else method.tree,
        _percent(own),
        _percent(less, "+.1f"),
        interval,
        str(own.n) if own else "0",
      ]
    )
  return Table(f"{group.name}: exact match, %", [], [*HEADER], rows)


def _percent(value, spec=".1f") -> str:
  if value is None:
    return NOTHING
  own = Estimate(mean=100 * value.mean, error=100 * value.error, n=value.n)
  return tables.estimate(own, spec)


def _reading(group, shares) -> Iterator[str]:
  less = [one.less_plain for one in shares if one.less_plain]
  sure = [one for one in less if one.error > 0]
  if sure:
    worst = max(sure, key=lambda one: abs(one.mean / one.error))
    yield (
      f"{group.models}: the largest difference in exact match from plain"
      f" decoding, among {len(less)} methods and relative to its error, is"
      f" {_percent(worst, '+.1f')} points ({comparing.word(worst)})."
    )


def _judged(group) -> list[Table]:
  """Makes a table for each judge that has rated answers of the group."""
  judges = {
    key.judge for unit in group.units for key in grades.read(unit.folder)
  }
  found = []
  for judge in sorted(judges):
    own = [grades.Exam.of(unit) for unit in group.units]
    rows = grades.table([one for one in own if one.methods], judge)
    found += rendering.rendered(rows, f"{group.name}, by {judge}")
  return found


EXPERIMENT = experiment.Experiment(
  name="quality",
  title="Quality: exact match, and a judge's ratings",
  sweep=lambda config, smoke: experiment.by_seed(config, 1 if smoke else None),
  render=render,
  base={"temperatures": (1.0,), **experiment.LENGTHS_ALONE},
)


if __name__ == "__main__":
  command.run(EXPERIMENT)
