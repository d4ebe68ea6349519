"""Wider than the paper: the frontier at 128, 256 and 768 drafted nodes.

  python -m experiments.wide
  python -m experiments.wide --config=configs/quickstart.py:weak
  python -m experiments.wide --config=configs/python_bundled.py
  python -m experiments.wide --config.per_task=100

What experiments/frontier.py asks, of as many passes of the draft and trees that
are up to twelve times as large; beside them EAGLE's number of nodes and the
binary tree's, on the same questions. Of so many nodes a pass takes long on a
CPU: of each task the first four questions are asked, if the config does not
name a number (100 is all of MiniBench's), and nothing is timed.
"""

from __future__ import annotations

import functools
from collections.abc import Iterator

from experiments import command, experiment, frontier
from experiments.experiment import Shard

SIZES = (25, 62, 128, 256, 768)
FEW = 4  # questions of a task, where the config asks all


def sweep(config, smoke: bool) -> Iterator[Shard]:
  """A shard for each tree; a smoke run has the first one.

  Of a draft that draws cooler for some trees those alone, and the size's first.
  """
  asked = {} if smoke or config.per_task else {"per_task": FEW}
  for nodes in SIZES[:1] if smoke else SIZES:
    trees = frontier.coolest(frontier.known_at(config, nodes))
    for tree in trees[: 1 if smoke else None]:
      yield Shard(frontier.folder(tree), {"trees": tree, **asked})


EXPERIMENT = experiment.Experiment(
  name="wide",
  title="Wider than the paper: as many draft passes, up to 768 nodes",
  sweep=sweep,
  render=functools.partial(frontier.render, name="wide"),
  configs=("quickstart",),
  base={**frontier.EXPERIMENT.base, "timing.per_task": 0},
  apart=frontier.EXPERIMENT.apart,
)


if __name__ == "__main__":
  command.run(EXPERIMENT)
