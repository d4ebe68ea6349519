"""The paper's table of temperatures: the gain grows with the temperature.

python -m experiments.temperature
python -m experiments.temperature --config=configs/llama3_1b_8b.py
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Sequence

from experiments import command, comparing, drawing, experiment, paper
from experiments.experiment import Artefact, Group, Shard
from tv_jax.engine.estimates import Estimate
from tv_jax.runs.records import Method
from tv_jax.runs.report.tables import Table

BASE = Method(proposal=comparing.PROPOSAL)
NOTE = (
  "The paper's numbers are from its table of temperatures, for"
  " Llama-3.1-8B-Instruct with Llama-3.2-1B-Instruct. For other models they"
  " show a pattern, not a reference. The figure shows the paper's gains from"
  " separate runs."
)


def sweep(config, smoke: bool) -> Iterator[Shard]:
  """Makes a shard for each temperature."""
  del config
  hot = [*paper.TEMPERATURES]
  for temperature in (hot[0], hot[-1]) if smoke else hot:
    yield Shard(
      f"temperature-{temperature:g}", {"temperatures": (temperature,)}
    )


def render(groups: Sequence[Group]) -> Artefact:
  """Makes a table for each tree of each group, and draws the gains."""
  made = Artefact()
  for group in groups:
    found = {
      tree: {
        hot: comparing.compare(
          group.answers, dataclasses.replace(BASE, tree=tree, temperature=hot)
        )
        for hot in paper.TEMPERATURES
      }
      for tree in group.trees
    }
    for tree, own in found.items():
      made.tables.append(_table(group, tree, own))
      made.reading += comparing.growth(
        group, tree, own, "", "degree of temperature"
      )
    made.notes += comparing.notes(group)
    made.figures[f"temperature-{group.name}"] = _figure(found)
  made.notes += [NOTE, *comparing.DEFINITIONS]
  return made


def _table(group, tree, found) -> Table:
  rows = [
    [
      f"{hot:g}",
      *own.row,
      *comparing.printed(paper.TEMPERATURES[hot].get(tree)),
    ]
    for hot, own in found.items()
  ]
  return comparing.table(f"{group.name}, {tree}", ["temperature"], rows)


def _figure(found) -> str:
  lines = {
    tree: {
      "this run": {hot: own.gain for hot, own in cells.items() if own.gain},
      "the paper": {
        # Its error is not printed.
        hot: Estimate(mean=row[tree].delta, error=float("nan"), n=1)
        for hot, row in paper.TEMPERATURES.items()
        if tree in row
      },
    }
    for tree, cells in found.items()
  }
  return drawing.lines(lines, x="temperature", y="gain over token-level, %")


EXPERIMENT = experiment.Experiment(
  name="temperature",
  title="Temperatures: the paper's table of them, and the gain as a figure",
  sweep=sweep,
  render=render,
  configs=("quickstart", "quickstart:weak"),
  base={"plain": False, **experiment.LENGTHS_ALONE},
)


if __name__ == "__main__":
  command.run(EXPERIMENT)
