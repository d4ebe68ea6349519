"""What nodes of a tree are worth, cycle by cycle, and a table made from it.

W(v) = P(accepted node is v or below it), given a draft: the sum of the stop law
over v and all below it.

Axes: C cycles, N nodes.
"""

from __future__ import annotations

import dataclasses
import functools
import json
from collections.abc import Sequence

import numpy as np

from tv_jax.engine.estimates import Estimate
from tv_jax.engine.results import Generation
from tv_jax.replay import Cycles, merging, stop_laws
from tv_jax.tree import NO_CHILD, ROOT, Calibrated, Tree
from tv_jax.verifiers import Verifier

# Where the draft's largest probability begins another row of a calibration.
# Rows are narrow where it is sure: most of a tree's worth is there.
STEPS = (0.2, 0.35, 0.5, 0.65, 0.8, 0.9, 0.97)

# In each row, the chance over all rows counts as so many parents.
_PRIOR = 2.0


@dataclasses.dataclass(frozen=True, kw_only=True, eq=False)
class Sample:
  """Cycles decoded with one tree.

  Attributes:
    tree: The tree.
    worth: [C, N] W of each node, given the cycle's draft; the root's is 1.
    sure: [C, N] the largest probability of the draft after each node; 0 at
      leaves.
    item: [C] the prompt's number.
    accepted: [C] tokens gained; None if another rule ran.
  """

  tree: Tree
  worth: np.ndarray
  sure: np.ndarray
  item: np.ndarray
  accepted: np.ndarray | None

  @functools.cached_property
  def mean(self) -> np.ndarray:
    """[N] the mean W over cycles."""
    return self.worth.mean(axis=0)

  def length(self, nodes: Sequence[int]) -> Estimate:
    """Estimates the acceptance length of a tree of these nodes and the root."""
    own = self.worth[:, [ROOT, *nodes]].sum(axis=1)
    return Estimate.clustered(own, self.item)

  def gain(self, nodes: Sequence[int], base: Sequence[int]) -> Estimate:
    """Estimates by how much it is longer than another, on the same cycles."""
    own = self.worth[:, nodes].sum(axis=1) - self.worth[:, base].sum(axis=1)
    return Estimate.clustered(own, self.item)

  @property
  def check(self) -> Estimate | None:
    """Realised less expected length: 0 within its error, or there is a bug."""
    if self.accepted is None:
      return None
    return Estimate.of(self.accepted - self.worth.sum(axis=1))

  def halves(self) -> tuple[Sample, Sample]:
    """Splits by item: every other one to tune on, the rest to measure on."""
    items = np.unique(self.item)
    check_items(len(items))
    mine = np.isin(self.item, items[::2])
    return self._of(mine), self._of(~mine)

  def _of(self, cycles):
    accepted = None if self.accepted is None else self.accepted[cycles]
    return Sample(
      tree=self.tree,
      worth=self.worth[cycles],
      sure=self.sure[cycles],
      item=self.item[cycles],
      accepted=accepted,
    )


def check_items(count: int) -> None:
  """Refuses so few items that half of them would have no standard error."""
  if count < 4:
    raise ValueError(
      f"{count} prompts: give 4 or more, half to tune on and half to measure on"
    )


def worth_of(tree: Tree, stop: np.ndarray) -> np.ndarray:
  """Sums stop laws [C, N] over each node and all below it."""
  return np.asarray(stop, np.float64) @ tree.ancestors.astype(np.float64)


def sure_of(cycles: Cycles) -> np.ndarray:
  """Returns the draft's largest probability after each node; 0 at leaves."""
  tree, W = cycles.tree, cycles.q.shape[2]
  # Bins hold several tokens each.
  merged = W > merging.BINS and cycles.meta.get("vocabulary", W) != W
  found = np.zeros(cycles.tokens.shape, np.float32)
  own = cycles.q[..., : W - merging.BINS] if merged else cycles.q
  found[:, tree.inner] = own.max(axis=2)
  return found


def of_run(run: Generation) -> Sample:
  """Returns the traced cycles of `generate`; items are the prompts' places."""
  name, tree = run.config.name, run.tree
  assert isinstance(tree, Tree)
  assert run.trace is not None
  if name in run.expected:
    stop = [trace.panel[name].stop for trace in run.trace]
  else:  # no stop law: where it stopped
    stop = [np.eye(len(tree))[trace.node] for trace in run.trace]
  return Sample(
    tree=tree,
    worth=worth_of(tree, np.concatenate(stop)),
    sure=np.concatenate([trace.sure for trace in run.trace]),
    item=np.repeat(np.arange(len(stop)), [len(own) for own in stop]),
    accepted=np.concatenate(run.accepted),
  )


def of_cycles(verifier: Verifier, cycles: Cycles) -> Sample:
  """Returns recorded cycles, each node's worth by the rule's stop law."""
  if not isinstance(cycles.tree, Tree):
    raise ValueError(
      f"recorded on {cycles.tree!r}: a place of an adaptive tree is no node;"
      ' record with a wide tree that is known beforehand, such as "grown:128"'
    )
  ran = cycles.verifier == verifier.name
  return Sample(
    tree=cycles.tree,
    worth=worth_of(cycles.tree, stop_laws(verifier, cycles)),
    sure=sure_of(cycles),
    item=cycles.item,
    accepted=cycles.accepted if ran else None,
  )


def calibrate(sample: Sample) -> Calibrated:
  """Tabulates what a child is worth to an adaptive tree.

  For parents u after which the draft is equally sure, and their children v of
  one rank: chance = sum of W(v) / sum of W(u).
  """
  tree, rows = sample.tree, len(STEPS) + 1
  taken = np.zeros((rows, tree.max_children))
  there = np.zeros_like(taken)
  row = np.searchsorted(STEPS, sample.sure, side="right")
  for node in tree.inner:
    for rank, child in enumerate(tree.children[node]):
      if child != NO_CHILD:
        for sums, own in ((taken, child), (there, node)):
          worth = sample.worth[:, own]
          sums[:, rank] += np.bincount(row[:, node], worth, rows)
  overall = taken.sum(axis=0) / np.maximum(there.sum(axis=0), _PRIOR)
  chances = (taken + _PRIOR * overall) / (there + _PRIOR)
  # None is 0: the place of a child that is worth nothing would stay empty.
  return Calibrated(STEPS, np.clip(chances, 1e-4, 1).round(4).tolist())


def calibration_text(policy: Calibrated, said: dict) -> str:
  """Returns the content of a file that `adaptive:..@FILE` takes.

  Args:
    policy: The table.
    said: More to say about it.
  """
  content = {
    "steps": [*policy.steps],
    "chances": [[*row] for row in policy.chances],
    **said,
  }
  return json.dumps(content, indent=1) + "\n"
