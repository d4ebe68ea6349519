"""The paper's table of quality, and exact match, which needs no judge.

  python -m experiments quality
  python -m experiments.judge runs/experiments/quality --model=MODEL
  python -m experiments quality

Exact match: the share of right answers of each rule, and the difference from
plain decoding, paired by question. The second command asks a judge for ratings,
the third shows them.
"""

from __future__ import annotations

from collections.abc import Sequence

import pandas as pd

from experiments import experiment, judge
from experiments.experiment import Experiment, Group
from tv_jax.runs import stats
from tv_jax.runs.records import METHOD
from tv_jax.runs.tables import NOTHING, Report, Table, by_method, texts

NOTE = (
  "Exact match: the share of answers whose last line equals the reference, by"
  " question with turns and seeds pooled, in percent. Minus plain: the"
  " difference from plain decoding, paired by question."
)


def render(groups: Sequence[Group]) -> Report:
  """Makes a table of each group's exact matches, and one for each judge."""
  report = Report()
  for group in groups:
    answers = group.answers[group.answers["right"].notna()]
    answers = answers.assign(share=100 * answers["right"].astype(float))
    shares = stats.by_question(answers, METHOD, "share")
    less = stats.minus_plain(answers, METHOD, "share")
    cells = pd.DataFrame(
      {
        "minus plain": texts(less, "+.1f"),
        "exact match": texts(shares, ".1f"),
        "questions": shares["n"].map(str),
      }
    )
    title = f"{group.name}: exact match, %"
    judged = judge.tables_of(group.name, group.units)
    cells = by_method(cells.reindex(shares.index).fillna(NOTHING))
    report.tables += [Table(title, cells), *judged]
    if not judged:
      line = f"{group.name}: no judge has rated these answers."
      report.findings.append(line)
    report.notes += group.notes
  report.notes += [NOTE, judge.NOTE]
  return report


QUALITY = Experiment(
  name="quality",
  title="Quality: exact match, and a judge's ratings",
  sweep=experiment.by_seed,
  render=render,
  base=experiment.LENGTHS_ALONE,
)
