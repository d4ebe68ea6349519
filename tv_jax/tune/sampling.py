"""What nodes of a tree are worth, cycle by cycle.

W(v) = P(accepted node is v or below it), given a draft: the sum of the stop law
over v and all below it.

Axes: C cycles, N nodes, M nodes that have children, V vocabulary.
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Sequence

import numpy as np

from tv_jax.engine import Generation
from tv_jax.engine.estimates import Estimate
from tv_jax.replay import Cycles, merging, stop_laws
from tv_jax.tree import ROOT, Tree
from tv_jax.verifiers import Verifier


@dataclasses.dataclass(frozen=True, kw_only=True, eq=False)
class Sample:
  """Cycles of one tree.

  Attributes:
    tree: The tree.
    worth: [C, N] of each node in each cycle, given the draft; the root's is 1.
    sure: [C, N] the largest chance of the draft's law after each node; no
      leaf's.
    item: [C] the prompt's number.
    accepted: [C] tokens gained; None if nothing ran.
  """

  tree: Tree
  worth: np.ndarray
  sure: np.ndarray
  item: np.ndarray
  accepted: np.ndarray | None

  @functools.cached_property
  def mean(self) -> np.ndarray:
    """[N] W."""
    return self.worth.mean(axis=0)

  @property
  def items(self) -> int:
    """How many."""
    return len(np.unique(self.item))

  def length(self, nodes: Sequence[int]) -> Estimate:
    """Tokens a cycle with a tree of these nodes and the root, by item."""
    own = self.worth[:, [ROOT, *nodes]].sum(axis=1)
    return Estimate.clustered(own, self.item)

  def gain(self, nodes: Sequence[int], base: Sequence[int]) -> Estimate:
    """Less what a tree of other nodes has in the very same cycles, by item."""
    own = self.worth[:, nodes].sum(axis=1) - self.worth[:, base].sum(axis=1)
    return Estimate.clustered(own, self.item)

  @property
  def check(self) -> Estimate | None:
    """Realised less expected length: 0 within its error, or a bug."""
    if self.accepted is None:
      return None
    return Estimate.of(self.accepted - self.worth.sum(axis=1))

  def halves(self) -> tuple[Sample, Sample]:
    """Every other item, to tune on; and the others, to measure on."""
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
  """Refuses so few that of a half no error would be known."""
  if count < 4:
    raise ValueError(
      f"{count} prompts: give 4 or more, half to tune on and half to measure on"
    )


def worth_of(tree: Tree, stop: np.ndarray) -> np.ndarray:
  """[C, N] the chance to stop at each node or below it, of stop laws [C, N]."""
  return np.asarray(stop, np.float64) @ tree.ancestors.astype(np.float64)


def sure_of(cycles: Cycles) -> np.ndarray:
  """[C, N] the largest chance of the law after each node; no leaf's."""
  tree, W = cycles.tree, cycles.q.shape[2]
  # What is merged to one token is none.
  merged = W > merging.BINS and cycles.meta.get("vocabulary", W) != W
  found = np.zeros(cycles.tokens.shape, np.float32)
  own = cycles.q[..., : W - merging.BINS] if merged else cycles.q
  found[:, tree.inner] = own.max(axis=2)
  return found


def of_run(run: Generation) -> Sample:
  """Of what `generate` traced, all cycles; items are the prompts' places."""
  name, tree = run.settings.name, run.tree
  if name in run.expected:
    stop = [trace.stop[name] for trace in run.trace]
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
  """Of recorded cycles."""
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
