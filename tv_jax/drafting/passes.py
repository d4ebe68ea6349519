"""Forward passes over a whole text, and their outputs at its positions.

Axes: B rows, T tokens, W positions of a row, E embedding, J channels of the
target's features that a draft reads, U tokens that the draft knows.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import NamedTuple

import jax

from tv_jax.models import Model, causal_pass, products
from tv_jax.models import cache as caches


class Level(NamedTuple):
  """A draft's output at one level of the chains below W roots."""

  logits: jax.Array  # [B, W, U] float32
  confidence: jax.Array | None = None  # [B, W], if the draft predicts it


def features(module, params, tokens: jax.Array) -> jax.Array:
  """Returns a model's features [B, T, J] with causal attention."""
  cache = caches.empty(module.config, *tokens.shape)
  return causal_pass(module, params, (tokens,), cache)[1]


def target_features(
  target: Model, layers: Sequence[int], tokens
) -> tuple[jax.Array, jax.Array]:
  """Runs the target over a text.

  Args:
    target: The target.
    layers: Indices of the layers that the draft reads; empty if it reads the
      final features.
    tokens: [B, T] token ids.

  Returns:
    The final features [B, T, E], after the norm; and the features that the
    draft reads [B, T, J].
  """
  final = target.config.num_hidden_layers
  module = target.module.clone(outputs=(*layers, final))
  return _target_features(module, target.params, tokens)


@functools.partial(jax.jit, static_argnums=0)
def _target_features(module, params, tokens):
  x = features(module, params, tokens)
  J = x.shape[-1] - module.config.hidden_size
  return x[..., J:], x[..., :J] if J else x


def unembedding(params: dict) -> jax.Array:
  """Returns a model's unembedding [V, E]."""
  return params["unembedding" if "unembedding" in params else "embedding"]


def logits(params: dict, outputs: jax.Array) -> jax.Array:
  """Returns the logits [.., U] of outputs [.., E]."""
  return products.logits(outputs, unembedding(params))


def at(rows: jax.typing.ArrayLike, places: jax.Array) -> jax.Array:
  """Selects [B, W, ..] from rows [B, T, ..] at positions [B, W]."""
  return jax.vmap(lambda row, place: row[place])(rows, places)


def window(rows, first, size: int) -> jax.Array:
  """Selects [B, size, ..] from rows [B, T, ..], starting at first [B]."""
  take = functools.partial(
    jax.lax.dynamic_slice_in_dim, slice_size=size, axis=0
  )
  return jax.vmap(lambda row, start: take(row, start))(rows, first)
