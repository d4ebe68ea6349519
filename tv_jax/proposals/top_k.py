"""The likeliest tokens, without chance: as EAGLE-2 draws."""

from __future__ import annotations

import jax.numpy as jnp

from tv_jax.proposals import drawing
from tv_jax.proposals.proposal import NEVER, Proposal


def _draw(key, q, k):
  del key
  return drawing.best(q, k, 0)


def _laws(q_at, rest, exists):
  del rest
  at = jnp.diag(exists.astype(q_at.dtype))
  return jnp.zeros_like(q_at), at


def _following(q, drawn, k):
  del k
  return drawing.one_hot_of_best(q, len(drawn))


TOP_K = Proposal(
  name="top_k",
  draw=_draw,
  laws=_laws,
  following=_following,
  nested=True,
  ranks=True,
  rest_from=NEVER,
  distinct=True,
)
