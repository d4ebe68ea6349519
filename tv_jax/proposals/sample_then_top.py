"""One draw off the likeliest tokens, then these: Hu et al. (2025), greedy."""

from __future__ import annotations

import jax.numpy as jnp
import numpy as np

from tv_jax import probs
from tv_jax.proposals import drawing
from tv_jax.proposals.proposal import INVALID, Proposal
from tv_jax.proposals.with_replacement import WITH_REPLACEMENT


def _draw(key, q, k):
  top = drawing.best(q, k - 1, 0)
  # An absent top token (INVALID) must leave q alone, and -1 would wrap.
  left = q.at[jnp.where(top == INVALID, len(q), top)].set(0, mode="drop")
  sampled = jnp.where(jnp.any(left > 0), probs.draw(key, left), INVALID)
  return jnp.concatenate([sampled[None], top])


def _laws(q_at, rest, exists):
  K = len(q_at)
  if K == 1:  # no top tokens are held back: the law is q itself
    return WITH_REPLACEMENT.laws(q_at, rest, exists)
  q_at = jnp.where(exists, q_at, 0)
  left = rest + q_at[0]
  scale = drawing.over(left)
  first = np.arange(K) == 0
  at = jnp.diag(jnp.where(first, scale * q_at, exists.astype(q_at.dtype)))
  return jnp.where(first, scale, 0), at


def _following(q, drawn, k):
  if drawn:
    return drawing.one_hot_of_best(q, len(drawn) - 1)
  if k == 1:
    return q
  left = q.copy()
  left[drawing.ranking(q)[: k - 1]] = 0
  return drawing.over_sum(left)


SAMPLE_THEN_TOP = Proposal(
  name="sample_then_top",
  draw=_draw,
  laws=_laws,
  following=_following,
  rest_from=0,
  distinct=True,
)
