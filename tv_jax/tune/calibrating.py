"""What a child is worth to an adaptive tree, by how sure the draft is.

W(v) is the chance that the accepted node is v or below v. Of a wide tree's
cycles, of all parents u whose laws are alike, and their children v of one rank,

    chance = sum of W(v) / sum of W(u)

Axes: C cycles, N nodes.
"""

from __future__ import annotations

import json

import numpy as np

from tv_jax.tree import NO_CHILD, Calibrated
from tv_jax.tune.sampling import Sample

# Where the draft's largest chance makes another row. Rows are narrow where it
# is sure: there most of a tree's worth is.
STEPS = (0.2, 0.35, 0.5, 0.65, 0.8, 0.9, 0.97)

# A chance counts as so many parents' more as it is over all rows: of what was
# hardly met little is said.
_PRIOR = 2.0


def calibrate(sample: Sample) -> Calibrated:
  """The table of a sample."""
  tree, rows = sample.tree, len(STEPS) + 1
  taken = np.zeros((rows, tree.max_children))
  there = np.zeros_like(taken)
  row = np.searchsorted(STEPS, sample.sure, side="right")
  for node in tree.inner:
    for rank, child in enumerate(tree.children[node]):
      if child != NO_CHILD:
        own = row[:, node], rank
        np.add.at(taken, own, sample.worth[:, child])
        np.add.at(there, own, sample.worth[:, node])
  overall = taken.sum(axis=0) / np.maximum(there.sum(axis=0), _PRIOR)
  chances = (taken + _PRIOR * overall) / (there + _PRIOR)
  # Four digits, and none of them 0: the place of a child that is worth nothing
  # would stay empty.
  return Calibrated(STEPS, np.clip(chances, 1e-4, 1).round(4).tolist())


def text(policy: Calibrated, said: dict) -> str:
  """Of a file that `adaptive:..@FILE` takes, and what else there is to say."""
  content = {
    "steps": [*policy.steps],
    "chances": [[*row] for row in policy.chances],
    **said,
  }
  return json.dumps(content, indent=1) + "\n"
