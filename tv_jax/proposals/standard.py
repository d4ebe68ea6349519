"""The standard ways to draw siblings.

    without_replacement   distinct tokens, drawn one after the other, by Gumbel
                          top-k; for RRSw
    with_replacement      independent draws; for RRS, SpecInfer
    top_k                 the most likely tokens, not random; EAGLE-2
    sample_then_top       a random token outside the k - 1 most likely tokens,
                          then these k - 1; "greedy" in Hu et al. (2025)

Axes: k or K siblings, V vocabulary.
"""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np

from tv_jax import probs
from tv_jax.proposals.proposal import INVALID, NEVER, Proposal


def min_mass(dtype) -> float:
  """Returns the least remaining mass of q with which a sibling is drawn.

  It is 5e-31 in float32, which could not hold the factor that renormalises a
  smaller mass. Whether the sibling exists depends only on its elders, and not
  on its own token. So verification stays lossless without the sibling.
  """
  return float(jnp.finfo(dtype).tiny) ** 0.8


def safe_reciprocal(mass):
  """Returns 1 / mass; 0 for masses up to `min_mass`: there is no sibling."""
  none = mass <= min_mass(mass.dtype)
  return jnp.where(none, 0, 1 / jnp.where(none, 1, mass))


def best(score, k, floor):
  """Returns the ids of the k highest scores, lowest id first among equals."""
  value, token = jax.lax.top_k(score, min(k, len(score)))
  token = jnp.where(value > floor, token.astype(jnp.int32), INVALID)
  return jnp.pad(token, (0, k - len(token)), constant_values=INVALID)


def ranking(q):
  """Sorts ids by probability, lowest id first among equals: [V], NumPy."""
  return np.argsort(-q, kind="stable")


def one_hot_of_best(q, rank):
  """Returns the one-hot distribution of the token with this rank by q.

  It is [V] in NumPy, and all zeros if the token's probability is 0.
  """
  one_hot = np.zeros_like(q)
  if rank < len(q):
    token = ranking(q)[rank]
    one_hot[token] = q[token] > 0
  return one_hot


def without(q, tokens):
  """Returns q without these tokens, renormalised, or zeros: [V], NumPy."""
  rest = q.copy()
  rest[tokens] = 0
  total = rest.sum()
  return rest / total if total > 0 else rest


# Without replacement.


def _draw_distinct(key, q, k):
  """Draws by Gumbel top-k, in the order of the perturbed logits."""
  if k == 1:  # cheaper on a CPU
    token = probs.draw(key, q, (1,))
    return jnp.where(q[token] > 0, token, INVALID)
  noise = jax.random.gumbel(key, q.shape, q.dtype, mode="high")
  return best(jnp.log(q) + noise, k, -jnp.inf)


def _laws_distinct(q_at, rest, exists):
  q_at = jnp.where(exists, q_at, 0)
  # The mass of q that is left before each sibling; before the first it is 1.
  masses = [rest]
  for value in q_at[:0:-1]:
    masses.append(masses[-1] + value)
  scale = safe_reciprocal(jnp.stack([jnp.ones_like(rest), *masses[:0:-1]]))
  rank = np.arange(len(q_at))
  later = rank[:, None] <= rank  # [j, i]: sibling i is j or comes after j
  return scale, jnp.where(later, scale[:, None] * q_at[None, :], 0)


def _following_distinct(q, drawn, k):
  del k
  return without(q, [x for x in drawn if x != INVALID]) if drawn else q


WITHOUT_REPLACEMENT = Proposal(
  name="without_replacement",
  draw=_draw_distinct,
  laws=_laws_distinct,
  following=_following_distinct,
  nested=True,
  rest_from=1,
  distinct=True,
)


# With replacement.


def _draw_independent(key, q, k):
  return probs.draw(key, q, (k,))


def _laws_independent(q_at, rest, exists):
  del rest
  K = len(q_at)
  at = jnp.broadcast_to(jnp.where(exists, q_at, 0)[None, :], (K, K))
  return jnp.ones_like(q_at), at


def _following_independent(q, drawn, k):
  del drawn, k
  return q


WITH_REPLACEMENT = Proposal(
  name="with_replacement",
  draw=_draw_independent,
  laws=_laws_independent,
  following=_following_independent,
  nested=True,
  rest_from=NEVER,
)


# The most likely tokens.


def _draw_top(key, q, k):
  del key
  return best(q, k, 0)


def _laws_top(q_at, rest, exists):
  del rest
  return jnp.zeros_like(q_at), jnp.diag(exists.astype(q_at.dtype))


def _following_top(q, drawn, k):
  del k
  return one_hot_of_best(q, len(drawn))


TOP_K = Proposal(
  name="top_k",
  draw=_draw_top,
  laws=_laws_top,
  following=_following_top,
  nested=True,
  ranks=True,
  rest_from=NEVER,
  distinct=True,
)


# A random token, then the most likely tokens.


def _draw_then_top(key, q, k):
  top = best(q, k - 1, 0)
  # INVALID is mapped to an index that is dropped; -1 would be the last token.
  others = q.at[jnp.where(top == INVALID, len(q), top)].set(0, mode="drop")
  sampled = jnp.where(jnp.any(others > 0), probs.draw(key, others), INVALID)
  return jnp.concatenate([sampled[None], top])


def _laws_then_top(q_at, rest, exists):
  if len(q_at) == 1:  # a single sibling is drawn from q itself
    return _laws_independent(q_at, rest, exists)
  q_at = jnp.where(exists, q_at, 0)
  scale = safe_reciprocal(rest + q_at[0])
  first = np.arange(len(q_at)) == 0
  at = jnp.diag(jnp.where(first, scale * q_at, exists.astype(q_at.dtype)))
  return jnp.where(first, scale, 0), at


def _following_then_top(q, drawn, k):
  if drawn:
    return one_hot_of_best(q, len(drawn) - 1)
  return q if k == 1 else without(q, ranking(q)[: k - 1])


SAMPLE_THEN_TOP = Proposal(
  name="sample_then_top",
  draw=_draw_then_top,
  laws=_laws_then_top,
  following=_following_then_top,
  distinct=True,
)
