"""One after the other, none twice: RRSw, Gumbel top-k in draw order."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np

from tv_jax import probs, threefry
from tv_jax.proposals import drawing
from tv_jax.proposals.proposal import INVALID, Proposal

# More siblings than these are drawn by a single race, on any machine.
FEW = 8


def _draw(key, q, k):
  """Gumbel top-k, kept in the order of the perturbed logits.

  On a CPU it is cheaper to draw few of many tokens one after the other.
  """

  def race(key, q):
    noise = threefry.gumbel(key, len(q), q.dtype)
    return drawing.best(jnp.log(q) + noise, k, -jnp.inf)

  def draws(key, q):
    tokens, found = probs.draw_distinct(key, q, k)
    return jnp.where(found, tokens, INVALID)

  if k > FEW or 4 * k * k > len(q):
    return race(key, q)
  return jax.lax.platform_dependent(key, q, cpu=draws, default=race)


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
