"""The loss of a step of training: of some conversations, from their roots.

Axes: B rows, T tokens, W roots of a row, D levels, E embedding, U tokens that
the draft knows.
"""

from __future__ import annotations

import jax
import jax.numpy as jnp

from tv_jax.distill.chances import Known, Prefix, overlap
from tv_jax.distill.data import Rows, Shape
from tv_jax.drafting import passes
from tv_jax.models import decoder

# So much is added of what teaches a draft to say how sure it is.
_SURE = 0.1


def loss(
  module,
  shape: Shape,
  roots: int,
  kl: float,
  heat: float,
  laws,
  borrowed,
  trained,
  key,
  rows: Rows,
) -> tuple[jax.Array, dict]:
  """Returns the loss of some conversations, and nothing more to log.

  Of each token that is the chance that it is the first to be rejected by the
  traversal, where what comes before it is a constant: the draft learns less
  where a chain seldom gets. Where it gives a likely token next to nothing, that
  hardly changes with it; a share of KL(p, q) does.

  Args:
    module: The draft's.
    shape: Of the conversations.
    roots: So many of a row's are taken, drawn anew; 0: all.
    kl: The share of KL(p, q), up to what does not depend on q.
    heat: The temperature of the laws.
    laws: [E, U] the target's unembedding, of the tokens that the draft knows.
    borrowed: Parameters that stay.
    trained: Parameters that are trained.
    key: For which roots are taken.
    rows: The conversations, as `Corpus.rows` returns them.
  """
  W, D = shape.W, shape.D
  params = trained | borrowed
  known = Known.of(params, module.config)
  features, read = (
    jnp.asarray(x, jnp.float32) for x in (rows.features, rows.read)
  )
  log_p = passes.window(features, rows.first, W + D - 1)
  log_p = decoder.logits(log_p, laws) / heat
  log_p -= passes.window(rows.normaliser, rows.first, W + D - 1)[..., None]
  places = choose_roots(roots or W, W, rows, key)
  count = jnp.sum(places < rows.end[:, None], dtype=jnp.float32)
  prefix, total = Prefix.empty(places.shape), jnp.zeros([])
  levels = passes.levels(module, params, rows.tokens, read, places, D)
  for number, level in enumerate(levels):
    place = places + number
    law = passes.at(log_p, place - rows.first[:, None])
    token = passes.at(rows.tokens, place + 1)
    log_q = jax.nn.log_softmax(level.logits / heat, axis=-1)
    before = jax.lax.stop_gradient(prefix)
    first = before.chance("traversal")
    first -= before.next_chance("traversal", law, log_q)
    value = (1 - kl) * first
    value -= kl * jnp.sum(jnp.exp(law) * log_q, axis=-1)
    if level.sure is not None:
      value += _SURE * unsure(level.sure, overlap(law, log_q))
    total += jnp.sum(jnp.where(place < rows.end[:, None], value, 0)) / count
    prefix = prefix.longer(known.chance(law, token), known.chance(log_q, token))
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
