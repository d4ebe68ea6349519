"""What a step of training makes small: of some conversations, from their roots.

Axes: B rows, T tokens, W roots of a row, D levels, E embedding, U tokens that
the draft knows.
"""

from __future__ import annotations

import jax
import jax.numpy as jnp

from tv_jax.distill import losses, passes
from tv_jax.distill.chances import Known, Prefix, overlap
from tv_jax.distill.data import Rows, Shape
from tv_jax.distill.losses import LOSSES, Seen

# So much is added of what teaches a draft to say how sure it is.
_SURE = 0.1


def loss(
  how,
  draft: passes.Draft,
  shape: Shape,
  heat: float,
  laws,
  borrowed,
  trained,
  key,
  read,
) -> tuple[jax.Array, dict]:
  """Returns the loss of some conversations, and nothing more to log.

  Args:
    how: A `Training`.
    draft: The draft.
    shape: Of the conversations.
    heat: The temperature of the laws.
    laws: The target's unembedding, of the tokens that the draft knows.
    borrowed: Parameters that stay.
    trained: Parameters that are trained.
    key: For which roots are taken, where not all are.
    read: The conversations, and what `Corpus.of_target` returns of them.
  """
  rows, features, normaliser, theirs = read
  W, D = shape.W, shape.D
  params = trained | borrowed
  known = Known.of(params, draft.config)
  features = features.astype(jnp.float32)
  theirs = features if theirs is None else theirs.astype(jnp.float32)
  log_p = passes.window(features, rows.first, W + D - 1)
  log_p = passes.logits(laws, log_p) / heat
  log_p -= passes.window(normaliser, rows.first, W + D - 1)[..., None]
  roots = _roots(how.roots or W, W, rows, key)
  there = roots < rows.end[:, None]
  count = jnp.sum(there, dtype=jnp.float32)
  prefix = Prefix.empty(roots.shape)
  total = jnp.zeros([])
  levels = draft.levels(params, rows.tokens, theirs, roots, D)
  for level, said in enumerate(levels):
    place = roots + level
    own = passes.at(log_p, place - rows.first[:, None])
    token = passes.at(rows.tokens, place + 1)
    log_q = jax.nn.log_softmax(said.logits / heat, axis=-1)
    chosen = known.chance(log_q, token)
    seen = Seen(prefix, own, log_q, chosen)
    value = LOSSES[how.loss](seen, how.rule)
    value += how.kl * losses.kl(seen, how.rule)
    if said.sure is not None:
      value += _SURE * _unsure(said.sure, overlap(own, log_q))
    total += jnp.sum(jnp.where(place < rows.end[:, None], value, 0)) / count
    prefix = prefix.longer(known.chance(own, token), chosen)
  return total, {}


def _roots(most: int, W: int, rows: Rows, key) -> jax.Array:
  """Returns the roots [B, W] of each row, or so many of them at random.

  Those that are behind the row's end come last.
  """
  first = jnp.asarray(rows.first)[:, None]
  place = first + jnp.arange(W, dtype=jnp.int32)[None]
  if most >= W:
    return place
  chance = jax.random.uniform(key, (len(rows.tokens), W))
  there = place < rows.end[:, None]
  _, which = jax.lax.top_k(jnp.where(there, chance, -1.0), most)
  return first + which.astype(jnp.int32)


def _unsure(sure: jax.Array, accepted: jax.Array) -> jax.Array:
  """Returns the cross-entropy to the chance that a token is accepted."""
  accepted = jax.lax.stop_gradient(accepted)
  sure = jnp.clip(sure, 1e-6, 1 - 1e-6)
  return -(accepted * jnp.log(sure) + (1 - accepted) * jnp.log1p(-sure))
