"""What nodes of a tree are worth, cycle by cycle.

W(v) = P(accepted node is v or below it), given a draft: the sum of the stop law
over v and all below it.

Axes: C cycles, N nodes.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

import numpy as np

from tv_jax.engine.results import Estimate, Generation
from tv_jax.tree import ROOT, Tree


@dataclasses.dataclass(frozen=True, eq=False)
class Sample:
  """Cycles decoded with one tree.

  Attributes:
    worth: [C, N] W of each node, given the cycle's draft; the root's is 1.
    item: [C] the prompt's number.
  """

  worth: np.ndarray
  item: np.ndarray

  def length(self, nodes: Sequence[int]) -> Estimate:
    """Estimates the acceptance length of a tree of these nodes and the root."""
    lengths = self.worth[:, [ROOT, *nodes]].sum(axis=1)
    return Estimate.clustered(lengths, self.item)

  def gain(self, nodes: Sequence[int], base: Sequence[int]) -> Estimate:
    """Estimates by how much it is longer than another, on the same cycles."""
    gained = self.worth[:, nodes].sum(axis=1) - self.worth[:, base].sum(axis=1)
    return Estimate.clustered(gained, self.item)

  def halves(self) -> tuple[Sample, Sample]:
    """Splits by item: every other one to tune on, the rest to measure on."""
    first = np.isin(self.item, np.unique(self.item)[::2])
    tuning, others = (
      Sample(self.worth[half], self.item[half]) for half in (first, ~first)
    )
    return tuning, others


def worth_of(tree: Tree, stop: np.ndarray) -> np.ndarray:
  """Sums stop laws [C, N] over each node and all below it."""
  return np.asarray(stop, np.float64) @ tree.ancestors.astype(np.float64)


def of_run(run: Generation) -> Sample:
  """Returns the traced cycles of `generate`; items are the prompts' places."""
  name, trace = run.config.name, run.trace
  assert isinstance(run.tree, Tree)
  assert name is not None
  assert trace is not None
  stop = [cycles.panel[name].stop for cycles in trace]
  return Sample(
    worth_of(run.tree, np.concatenate(stop)),
    np.repeat(np.arange(len(stop)), [*map(len, stop)]),
  )
