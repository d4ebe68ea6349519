"""Independent draws: RRS, SpecInfer."""

from __future__ import annotations

import jax.numpy as jnp

from tv_jax import probs
from tv_jax.proposals.proposal import NEVER, Proposal


def _draw(key, q, k):
  return probs.draw(key, q, (k,))


def _laws(q_at, rest, exists):
  del rest
  K = len(q_at)
  at = jnp.broadcast_to(jnp.where(exists, q_at, 0)[None, :], (K, K))
  return jnp.ones_like(q_at), at


def _following(q, drawn, k):
  del drawn, k
  return q


WITH_REPLACEMENT = Proposal(
  name="with_replacement",
  draw=_draw,
  laws=_laws,
  following=_following,
  nested=True,
  rest_from=NEVER,
)
