"""Drafted trees with both models' laws on them.

Axes: C cycles, N nodes, M nodes that have children, V vocabulary, or what it
was merged to.
"""

import dataclasses

import numpy as np

from tv_jax.proposals import Proposal
from tv_jax.tree import Adaptive, Tree


@dataclasses.dataclass(frozen=True, kw_only=True, eq=False)
class Cycles:
  """What was drafted, and both models' laws on it.

  Attributes:
    tree: Of all cycles, or what shaped another one in each.
    proposal: How siblings were drawn.
    tokens: [C, N] int32; the root's is ignored.
    q: [C, M, V] float32 draft laws.
    p: [C, M, V] float32 target laws.
    parents: [C, N] of each cycle, if they have trees of their own.
    item: [C] the prompt's number; by default each cycle is an item of its own.
    cycle: [C] its place in the prompt's answer.
    verifier: What ran, if anything did.
    temperature: Of the target.
    accepted: [C] tokens gained, if anything ran.
    expected: [C] by verifier, as computed before laws were merged.
    meta: Anything that JSON can say.
  """

  tree: Tree | Adaptive
  proposal: Proposal
  tokens: np.ndarray
  q: np.ndarray
  p: np.ndarray
  item: np.ndarray
  cycle: np.ndarray
  parents: np.ndarray | None = None
  verifier: str | None = None
  temperature: float | None = None
  accepted: np.ndarray | None = None
  expected: dict[str, np.ndarray] = dataclasses.field(default_factory=dict)
  meta: dict = dataclasses.field(default_factory=dict)

  def __len__(self) -> int:
    """C."""
    return len(self.tokens)
