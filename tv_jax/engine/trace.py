"""What is recorded of a drafted tree for somebody to look at.

Axes: N nodes, K children of a node, M nodes that have children, V vocabulary.
"""

from __future__ import annotations

from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from tv_jax import verifiers
from tv_jax.proposals import Proposal
from tv_jax.tree import Topology, Tree
from tv_jax.verifiers import family


class Trace(NamedTuple):
  """One tree. What is said of a node's token is 0 at the root.

  With a stop law the chance at each node follows; with the coins, what any of
  the rules decides.
  """

  tokens: jax.Array  # [N] int32, the root's among them; INVALID: none drawn
  p: jax.Array  # [N] the target's law of a node's token
  q: jax.Array  # [N] the draft's base law of it
  drawn: jax.Array  # [N] the law that it was drawn from, siblings considered
  sure: jax.Array  # [N] the largest chance of the law after a node; no leaf's
  coins: jax.Array  # [N] what the rule compared its chances with
  stop: dict[str, jax.Array]  # [N] by verifier: where it would stop
  node: jax.Array  # [] int32 the accepted node
  parent: (
    jax.Array | np.ndarray | None
  )  # [N] int32; None where the plan's tree says it


def look(
  key: jax.Array,
  tree: Tree | Topology,
  proposal: Proposal,
  tokens: jax.Array,  # [N]
  q: jax.Array,  # [N, V]
  p: jax.Array,  # [N, V]
  stop: dict[str, jax.Array],  # [N] by verifier
  node: jax.Array,  # []
) -> Trace:
  """A drafted tree as it is verified with randomness from `key`."""
  own = family.gather(tree, proposal, tokens, q, p)
  known = isinstance(tree, Tree)
  inner = jnp.asarray(tree.inner) if known else jnp.arange(len(tokens))
  parent, rank = jnp.asarray(tree.parent)[1:], jnp.asarray(tree.rank)[1:]
  drawn = tokens[1:] >= 0

  def of_tokens(values):
    values = jnp.where(drawn, values, 0)
    return jnp.concatenate([jnp.zeros_like(values[:1]), values])

  return Trace(
    tokens=tokens,
    p=of_tokens(own.p_at[parent, rank]),
    q=of_tokens(q[parent, jnp.maximum(tokens[1:], 0)]),
    drawn=of_tokens(own.laws.at[parent, rank, rank]),
    sure=jnp.zeros_like(q[:, 0]).at[inner].set(jnp.max(q[inner], axis=-1)),
    coins=verifiers.toss(key, len(tokens), p.dtype),
    stop=stop,
    node=node,
    parent=None if known else tree.parent,
  )
