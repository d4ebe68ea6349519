"""One cycle as a program of its own, that gives out what it drafted.

Axes: B batch, N nodes, M nodes that have children, V vocabulary, W merged
alphabet.
"""

from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from tv_jax.engine import stages
from tv_jax.replay import merging


class Seen(NamedTuple):
  """What is kept of one cycle of a batch."""

  active: jax.Array  # [B] whether the row was still decoding
  tokens: jax.Array  # [B, N] in the merged alphabets
  q: jax.Array  # [B, M, W]
  p: jax.Array  # [B, M, W]
  parents: (
    jax.Array | np.ndarray | None
  )  # [B, N] where rows have trees of their own
  accepted: jax.Array  # [B]
  expected: dict[str, jax.Array]  # [B] by verifier of the panel


def step(plan, params, request, state):
  """A cycle, and what is kept of it."""
  after, draft, laws = stages.observe(plan, params, request, state)
  tree = plan.speculation.tree
  distinct = plan.speculation.proposal.distinct

  def merge(row):
    topology, *drawn = row
    return merging.merge(tree, *drawn, distinct=distinct, topology=topology)

  rows = draft.topology, draft.tokens, draft.laws, laws[:, tree.inner]
  tokens, q, p = jax.vmap(merge)(rows)

  def column(buffer):  # a row that is done has nothing to say
    cycle = state.records.cycles[:, None]
    return jnp.take_along_axis(buffer, cycle, axis=1, mode="clip")[:, 0]

  return after, Seen(
    active=~state.done,
    tokens=tokens,
    q=q,
    p=p,
    parents=draft.topology and draft.topology.parent,
    accepted=column(after.records.accepted),
    expected=jax.tree.map(column, after.records.expected),
  )
