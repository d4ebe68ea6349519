"""Token-level verification: recursive rejection sampling, from the root down.

This is Algorithm 2 of the traversal's paper, as in SpecInfer, EAGLE and
Sequoia: RRS or RRSw, depending on the proposal. On a chain it is vanilla
speculative decoding (Algorithm 1). Every node starts with the residual g = p. A
child is offered with its entry probability, and each rejected child changes g.
All families take their first rejection in one batched operation, then all their
second, and so on.

Axes: N nodes.
"""

import functools

import jax.numpy as jnp
import numpy as np

from tv_jax.verifiers import residual
from tv_jax.verifiers.base import Draft, Offers, Verifier
from tv_jax.verifiers.walk import DOWN


def offers(draft: Draft) -> Offers:
  """Computes the entry probabilities of all nodes."""
  tree, families = draft.tree, residual.gather(draft)
  entry = jnp.zeros(len(tree), draft.p.dtype)
  g = residual.begin(families, jnp.ones_like(entry))
  for rank in range(tree.max_children):
    chance = residual.enter(g, families, tree)
    entry = jnp.where((tree.rank == rank) & (tree.depth > 0), chance, entry)
    # No mass after a node's last rejection is needed.
    rejecting = np.flatnonzero(rank < tree.num_children - 1)
    if len(rejecting):
      ranks = np.full(len(rejecting), rank)
      after = residual.reject(g, families, draft, rejecting, ranks)
      g = g.at[rejecting].set(after)
  pending = np.ones(len(tree), bool)  # the last rejection of every node
  return Offers(
    chance=entry,
    offered=entry > 0,
    residual=functools.partial(
      residual.distribution, g, families, draft, pending
    ),
  )


RULE = Verifier(name="token_level", offers=offers, walk=DOWN, by_path=True)
