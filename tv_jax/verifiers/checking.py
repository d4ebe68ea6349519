"""Checks of drafted trees that come from outside.

Axes: C cycles, N nodes, M nodes that have children, V vocabulary.
"""

from __future__ import annotations

import numpy as np

from tv_jax.io.errors import UserError
from tv_jax.proposals import INVALID
from tv_jax.tree import ROOT, Tree

# Largest difference of a row's sum from 1 that counts as rounding.
TOLERANCE = 1e-3


def check_drafts(
  tree: Tree, tokens: np.ndarray, q: np.ndarray, p: np.ndarray
) -> None:
  """Refuses drafts that no verifier can judge, naming the first bad node.

  Args:
    tree: The tree of all cycles.
    tokens: [C, N]
    q: [C, M, V] after the nodes that have children, or [C, N, V] after all.
    p: [C, M, V] or [C, N, V] as well. Only p is checked after leaves.
  """
  N, inner, V = len(tree), tree.inner, p.shape[2]
  drawn = (tokens != INVALID) | (np.arange(N) == ROOT)
  valid = (tokens >= 0) & (tokens < V) & drawn[:, tree.parent]
  for cycle, i in np.argwhere(drawn[:, 1:] & ~valid[:, 1:])[:1]:
    raise UserError(
      f"{_of(cycle, tokens)}node {i + 1} has token {tokens[cycle, i + 1]}: give"
      f" 0 to {V - 1}. Give {INVALID} if no token could be drawn, and to all"
      " nodes below"
    )
  q = q if q.shape[1] == len(inner) else q[:, inner]
  for name, laws in (("q", q), ("p", p)):
    nodes = inner if laws.shape[1] == len(inner) else np.arange(N)
    total, least = laws.sum(axis=2, dtype=np.float64), laws.min(axis=2)
    # A NaN fails both comparisons.
    good = (least >= 0) & (abs(total - 1) <= TOLERANCE)
    for cycle, i in np.argwhere(drawn[:, nodes] & ~good)[:1]:
      raise UserError(
        f"{_of(cycle, tokens)}{name}[{nodes[i]}] sums to"
        f" {total[cycle, i]:.6g}, and its least entry is"
        f" {least[cycle, i]:.6g}: give probabilities, not logits or truncated"
        " probabilities"
      )


def _of(cycle: int, tokens: np.ndarray) -> str:
  return f"cycle {cycle}, " if len(tokens) > 1 else ""
