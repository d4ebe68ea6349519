"""The training loss of a batch of conversations.

Axes: B rows, T tokens, W roots of a row, D levels, E embedding, U tokens that
the draft knows.
"""

from __future__ import annotations

import jax
import jax.numpy as jnp

from tv_jax.distill.chances import overlap, teacher_forced_levels
from tv_jax.distill.data import Rows, Shape
from tv_jax.drafting import passes

# Weight of the loss of the confidence.
_CONFIDENCE = 0.1


def loss(
  module,
  shape: Shape,
  roots: int,
  temperature: float,
  borrowed: dict,
  trained,
  key,
  rows: Rows,
) -> jax.Array:
  """Returns the loss of a batch.

  It is the cross-entropy of q relative to p, which is KL(p, q) plus a constant,
  averaged over roots and summed over levels.

  Args:
    module: The draft's module.
    shape: Padded sizes of the conversations.
    roots: Number of random roots of each row; 0: all.
    temperature: Temperature of the target and the draft.
    borrowed: Parameters that are not trained, with the target's unembedding
      [U, E] of the tokens that the draft knows among them.
    trained: Parameters that are trained.
    key: Random key that chooses the roots.
    rows: The conversations, from `Corpus.rows`.
  """
  params, width = trained | borrowed, shape.W + shape.D - 1
  features = jnp.asarray(rows.features, jnp.float32)
  log_p = passes.logits(borrowed, passes.window(features, rows.first, width))
  log_p /= temperature
  log_p -= passes.window(rows.normaliser, rows.first, width)[..., None]
  places = choose_roots(roots or shape.W, shape.W, rows, key)
  count = jnp.sum(places < rows.end[:, None], dtype=jnp.float32)
  total = jnp.zeros([])
  for step in teacher_forced_levels(
    module, params, rows, places, shape.D, log_p, temperature
  ):
    value = -jnp.sum(jnp.exp(step.log_p) * step.log_q, axis=-1)
    if step.confidence is not None:
      accepted = overlap(step.log_p, step.log_q)
      value += _CONFIDENCE * confidence_loss(step.confidence, accepted)
    inside = step.place < rows.end[:, None]
    total += jnp.sum(jnp.where(inside, value, 0)) / count
  return total


def choose_roots(most: int, W: int, rows: Rows, key) -> jax.Array:
  """Returns all roots of each row [B, W], or `most` random ones.

  Roots after a row's end come last.
  """
  first = jnp.asarray(rows.first)[:, None]
  place = first + jnp.arange(W, dtype=jnp.int32)[None]
  if most >= W:
    return place
  chance = jax.random.uniform(key, (len(rows.tokens), W))
  inside = place < rows.end[:, None]
  _, which = jax.lax.top_k(jnp.where(inside, chance, -1.0), most)
  return first + which.astype(jnp.int32)


def confidence_loss(confidence: jax.Array, accepted: jax.Array) -> jax.Array:
  """Returns the cross-entropy to the probability that a token is accepted."""
  accepted = jax.lax.stop_gradient(accepted)
  x = jnp.clip(confidence, 1e-6, 1 - 1e-6)
  return -(accepted * jnp.log(x) + (1 - accepted) * jnp.log1p(-x))
