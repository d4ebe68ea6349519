"""What several ways to draw siblings are made of.

Axes: k siblings, V vocabulary.
"""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np

from tv_jax.proposals.proposal import INVALID


def exhausted(dtype) -> float:
  """So little of q is left that no sibling is offered from it: 5e-31 or less.

  Float32 could not hold what q is then multiplied with. Whether this is so
  depends on the earlier siblings alone, never on a sibling's own token, so that
  leaving it out costs nothing but its chance.
  """
  return float(jnp.finfo(dtype).tiny) ** 0.8


def over(left):
  """1 / left; 0, for no sibling at all, where next to nothing is left."""
  none = left <= exhausted(left.dtype)
  return jnp.where(none, 0, 1 / jnp.where(none, 1, left))


def best(score, k, floor):
  """[k] ids of the largest scores, lowest id first among equals."""
  k_or_all = min(k, len(score))
  value, token = jax.lax.top_k(score, k_or_all)
  token = jnp.where(value > floor, token.astype(jnp.int32), INVALID)
  return jnp.pad(token, (0, k - k_or_all), constant_values=INVALID)


def ranking(q):
  """[V] ids in NumPy, the likeliest first, lowest id first among equals."""
  return np.argsort(-q, kind="stable")


def one_hot_of_best(q, place):
  """[V] in NumPy: all on the token of that place in the ranking, if any."""
  law = np.zeros_like(q)
  if place < len(q):
    token = ranking(q)[place]
    law[token] = q[token] > 0
  return law


def over_sum(weights):
  """[V] in NumPy: a law; all zeros where nothing is left."""
  total = weights.sum()
  return weights / total if total > 0 else weights
