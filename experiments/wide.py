"""Wider than the paper: the frontier at 128, 256 and 768 drafted nodes.

  python -m experiments.wide
  python -m experiments.wide --config=configs/quickstart.py:weak
  python -m experiments.wide --config=configs/python_bundled.py
  python -m experiments.wide --config.per_task=100

As experiments/frontier.py, with trees that are up to twelve times as large and
as many passes of the draft; on the same questions also EAGLE's number of nodes
and the binary tree's. A pass over so many nodes takes long on a CPU: by default
four questions of each task are asked (100: all of MiniBench's), and nothing is
timed.
"""

from __future__ import annotations

import functools
from collections.abc import Iterator

from experiments import command, experiment, frontier, places
from experiments.experiment import Shard

SIZES = (25, 62, 128, 256, 768)
FEW = 4  # questions of a task


def sweep(config, smoke: bool) -> Iterator[Shard]:
  """Makes a shard for each base, and each tree of the coolest draft."""
  asked = {} if smoke or config.per_task else {"per_task": FEW}
  for nodes in SIZES[:1] if smoke else SIZES:
    trees = places.coolest(places.known_at(config, nodes))
    for tree in trees[: 1 if smoke else None]:
      yield Shard(frontier.folder(tree), {"trees": tree, **asked})


EXPERIMENT = experiment.Experiment(
  name="wide",
  title="Wider than the paper: as many draft passes, up to 768 nodes",
  sweep=sweep,
  render=functools.partial(frontier.render, name="wide"),
  base={**frontier.EXPERIMENT.base, "timing.per_task": 0},
  apart=frontier.EXPERIMENT.apart,
)


if __name__ == "__main__":
  command.run(EXPERIMENT)
