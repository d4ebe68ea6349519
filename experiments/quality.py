"""The paper's table of quality, and exact match, which needs no judge.

  python -m experiments quality
  python -m experiments.judge runs/experiments/quality --model=MODEL
  python -m experiments quality

Exact match: the share of right answers of each rule, and the difference from
plain decoding, paired by question. The second command asks a judge for ratings,
the third shows them.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from experiments import experiment, judge
from experiments.experiment import Artefact, Experiment, Group
from tv_jax.engine.results import Estimate
from tv_jax.io.tables import NOTHING, Table
from tv_jax.runs import metrics
from tv_jax.runs.records import Answer, Method
from tv_jax.runs.report import tables

HEADER = ("rule", "tree", "minus plain", "exact match", "questions")
NOTE = (
  "Exact match: the share of answers whose last line equals the reference, by"
  " question with turns and seeds pooled, in percent. Minus plain: the"
  " difference from plain decoding, paired by question."
)


def render(groups: Sequence[Group]) -> Artefact:
  """Makes a table of each group's exact matches, and one for each judge."""
  artefact = Artefact()
  for group in groups:
    shares = right_shares(group.answers)
    rows = [
      [
        str(method.verifier),
        NOTHING if method.plain else str(method.tree),
        tables.estimate(less, "+.1f"),
        tables.estimate(share, ".1f"),
        str(share.n),
      ]
      for method, (share, less) in shares.items()
    ]
    title = f"{group.name}: exact match, %"
    judged = judge.tables_of(group.name, group.units)
    artefact.tables += [Table(title, [], HEADER, rows), *judged]
    if not judged:
      line = f"{group.name}: no judge has rated these answers."
      artefact.reading.append(line)
    artefact.notes += group.notes
  artefact.notes += [NOTE, judge.NOTE]
  return artefact


def right_shares(
  answers: Iterable[Answer],
) -> dict[Method, tuple[Estimate, Estimate | None]]:
  """Returns shares in percent, and their differences from plain decoding."""
  by_method: dict[Method, list[Answer]] = {}
  for answer in answers:
    by_method.setdefault(answer.method.pooled("seed"), []).append(answer)
  shares = {
    method: {item: 100 * x for item, x in metrics.right(of_method).items()}
    for method, of_method in by_method.items()
  }
  result = {}
  for method in sorted(shares, key=lambda method: not method.plain):
    share, plain = shares[method], shares.get(method.undrafted, {})
    both = sorted(share.keys() & plain.keys())
    less = [share[item] - plain[item] for item in both]
    result[method] = (
      Estimate.of([*share.values()]),
      Estimate.of(less) if less and not method.plain else None,
    )
  return result


QUALITY = Experiment(
  name="quality",
  title="Quality: exact match, and a judge's ratings",
  sweep=lambda config, smoke: experiment.by_seed(config, 1 if smoke else None),
  render=render,
  base={"temperatures": (1.0,), **experiment.LENGTHS_ALONE},
)
