"""The loss of a step of training: of some conversations, from their roots.

Axes: B rows, T tokens, W roots of a row, D levels, E embedding, U tokens that
the draft knows.
"""

from __future__ import annotations

import jax
import jax.numpy as jnp

from tv_jax.certify.engine import passes
from tv_jax.distill.chances import along, overlap
from tv_jax.distill.data import Rows, Shape
from tv_jax.models import products

# So much is added of what teaches a draft to say how sure it is.
_SURE = 0.1


def loss(
  module,
  shape: Shape,
  roots: int,
  heat: float,
  laws: jax.Array,
  borrowed: dict,
  trained,
  key,
  rows: Rows,
) -> tuple[jax.Array, dict]:
  """Returns the loss of some conversations, and nothing more to log.

  It is KL(p, q) up to what does not depend on q, summed over the levels.

  Args:
    module: The draft's.
    shape: Of the conversations.
    roots: So many of a row's are taken, drawn anew; 0: all.
    heat: The temperature of the laws.
    laws: [U, E] the target's unembedding, of the tokens that the draft knows.
    borrowed: Parameters that stay.
    trained: Parameters that are trained.
    key: For which roots are taken.
    rows: The conversations, as `Corpus.rows` returns them.
  """
  params, width = trained | borrowed, shape.W + shape.D - 1
  features = jnp.asarray(rows.features, jnp.float32)
  log_p = products.logits(passes.window(features, rows.first, width), laws)
  log_p /= heat
  log_p -= passes.window(rows.normaliser, rows.first, width)[..., None]
  places = choose_roots(roots or shape.W, shape.W, rows, key)
  count = jnp.sum(places < rows.end[:, None], dtype=jnp.float32)
  total = jnp.zeros([])
  for step in along(module, params, rows, places, shape.D, log_p, heat):
    value = -jnp.sum(jnp.exp(step.log_p) * step.log_q, axis=-1)
    if step.sure is not None:
      value += _SURE * unsure(step.sure, overlap(step.log_p, step.log_q))
    inside = step.place < rows.end[:, None]
    total += jnp.sum(jnp.where(inside, value, 0)) / count
  return total, {}


def choose_roots(most: int, W: int, rows: Rows, key) -> jax.Array:
  """Returns the roots [B, W] of each row, or so many of them at random.

  Those that are behind the row's end come last.
  """
  first = jnp.asarray(rows.first)[:, None]
  place = first + jnp.arange(W, dtype=jnp.int32)[None]
  if most >= W:
    return place
  chance = jax.random.uniform(key, (len(rows.tokens), W))
  inside = place < rows.end[:, None]
  _, which = jax.lax.top_k(jnp.where(inside, chance, -1.0), most)
  return first + which.astype(jnp.int32)


def unsure(sure: jax.Array, accepted: jax.Array) -> jax.Array:
  """Returns the cross-entropy to the chance that a token is accepted."""
  accepted = jax.lax.stop_gradient(accepted)
  sure = jnp.clip(sure, 1e-6, 1 - 1e-6)
  return -(accepted * jnp.log(sure) + (1 - accepted) * jnp.log1p(-sure))
