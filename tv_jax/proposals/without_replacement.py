"""One after the other, none twice: RRSw, Gumbel top-k in draw order."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np

from tv_jax import probs
from tv_jax.proposals import drawing
from tv_jax.proposals.proposal import INVALID, Proposal


def _draw(key, q, k):
  """Gumbel top-k, kept in the order of the perturbed logits."""
  if k == 1:  # which is cheaper on a CPU
    token = probs.draw(key, q, (1,))
    return jnp.where(q[token] > 0, token, INVALID)
  noise = jax.random.gumbel(key, q.shape, q.dtype, mode="high")
  return drawing.best(jnp.log(q) + noise, k, -jnp.inf)


def _laws(q_at, rest, exists):
  K = len(q_at)
  q_at = jnp.where(exists, q_at, 0)
  left = [rest]
  for value in q_at[::-1]:
    left.append(left[-1] + value)
  # The first sibling's law is q itself.
  left = jnp.stack([jnp.ones_like(rest), *left[-2:0:-1]])
  scale = drawing.over(left)
  later = np.arange(K)[:, None] <= np.arange(K)  # [j, i]: i not before j
  return scale, jnp.where(later, scale[:, None] * q_at[None, :], 0)


def _following(q, drawn, k):
  del k
  left = q.copy()
  left[[token for token in drawn if token != INVALID]] = 0
  return drawing.over_sum(left) if drawn else q


WITHOUT_REPLACEMENT = Proposal(
  name="without_replacement",
  draw=_draw,
  laws=_laws,
  following=_following,
  nested=True,
  rest_from=1,
  distinct=True,
)
