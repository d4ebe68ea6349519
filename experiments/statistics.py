"""The paper's two ways to average, with an EAGLE head as the draft.

python -m experiments.statistics
python -m experiments.statistics --config=configs/vicuna_eagle.py
"""

from __future__ import annotations

from collections.abc import Sequence

from experiments import command, comparing, experiment, main_table, paper
from experiments.experiment import Artefact, Group
from tv_jax.runs.records import PLAIN
from tv_jax.runs.report import tables
from tv_jax.runs.report.tables import Table

HEADER = ("by token", "by item", "Speed-up")
RULES = {"token_level": "Tok.V", "traversal": "Tra.V"}


NOTE = (
  "By token: over all cycles of all questions, as in Spec-Bench; by item: in"
  " each question first, as in the paper. ± is the standard error over"
  " questions; by token it is clustered by question. Speed-up: over plain"
  " decoding; ± shows how much the few timed questions differ. The paper's"
  " numbers are for Vicuna-7B-v1.3 with EAGLE-Vicuna-7B-v1.3, printed without"
  " errors."
)


def render(groups: Sequence[Group]) -> Artefact:
  """Makes a table of each group, with a row for each tree and rule."""
  made = Artefact()
  for group in groups:
    made.tables.append(_table(group))
    made.reading += main_table.reading(group)
    made.notes += comparing.notes(group)
  made.notes.append(NOTE)
  return made


def _table(group) -> Table:
  rows = []
  for tree in paper.TREES:
    times = main_table.times_of(group, tree)
    both = comparing.compare(
      group.answers, comparing.on(main_table.AT_ONE, tree)
    )
    for rule, name in RULES.items():
      cell = getattr(both, rule)
      printed = paper.STATISTICS[tree][rule]
      rows.append(
        [
          tree,
          name,
          tables.estimate(cell and cell.by_token),
          tables.estimate(cell and cell.by_item),
          main_table.speedup(times.get(rule), times.get(PLAIN)),
          f"{printed.by_token:.2f}",
          f"{printed.by_item:.2f}",
          f"{printed.speedup:.2f}x",
        ]
      )
  groups = [("", 2), ("this run", len(HEADER)), ("the paper", len(HEADER))]
  return Table(group.name, groups, ["tree", "rule", *HEADER, *HEADER], rows)


EXPERIMENT = experiment.Experiment(
  name="statistics",
  title="By token and by item, with an EAGLE head",
  sweep=main_table.sweep,
  render=render,
  configs=("quickstart:eagle",),
  base=main_table.EXPERIMENT.base,
)


if __name__ == "__main__":
  command.run(EXPERIMENT)
