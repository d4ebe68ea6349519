"""Teacher-forced forward passes over a text, and the drafts at its positions.

Let token t of the text be the root of a cycle that drafts a chain. As long as
the chain equals the text, level j + 1 is the draft's distribution of token
t + j + 1, given the input that the draft had at t. An independent draft reads
tokens only, so a single pass gives all levels of all roots. An EAGLE head reads
the target's features up to t - 1 and the head's features after that, so every
root needs a separate chain of passes. A one-pass draft needs a separate block
for every root.

Axes: B rows, T tokens, W roots of a row, D levels, E embedding, J channels of
the target's features that a draft reads, K rows of a block, U tokens that the
draft knows, V vocabulary.
"""

from __future__ import annotations

import functools
from collections.abc import Iterator, Sequence
from typing import NamedTuple

import jax
import jax.numpy as jnp

from tv_jax.models import Model, causal_pass, decoder, dspark, products
from tv_jax.models import cache as caches
from tv_jax.models.mask import HIDDEN

# Number of roots in a pass. The cost of attention grows with its square.
_ROOTS = 32


class Level(NamedTuple):
  """A draft's output at one level."""

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
  last = target.config.num_hidden_layers - 1
  module = target.module.clone(outputs=(*layers, last) if layers else ())
  return _target_features(module, target.params, tokens)


@functools.partial(jax.jit, static_argnums=0)
def _target_features(module, params, tokens):
  x = features(module, params, tokens)
  J = x.shape[-1] - module.config.hidden_size
  return (_norm(module, params, x[..., J:]), x[..., :J]) if J else (x, x)


def _norm(module, params, x):
  """Applies the model's final norm."""
  scale = params["norm"]["scale"]
  return decoder.rms_norm(x, scale, module.config.rms_norm_eps)


def independent(module, params, tokens, read, roots, D: int) -> Iterator[Level]:
  """Yields the levels of an independent draft."""
  del read
  x = features(module, params, tokens)
  for level in range(D):
    yield Level(logits(params, at(x, roots + level)))


def on_features(module, params, tokens, read, roots, D: int) -> Iterator[Level]:
  """Yields the levels of an EAGLE-1 or EAGLE-3 head.

  Entry m of the head's cache pairs token m + 1 with feature m. The chain of
  root t sees the entries up to t - 1, made from the target's features, and the
  chain's entries. All chains' entries follow the text's, level by level.
  """
  config = module.config
  (B, T), W = tokens.shape, roots.shape[1]
  S = T - 1 + (D - 1) * W
  cache = caches.empty(config, B, S)

  def level_of(x):
    # EAGLE-3's features come before its final norm.
    x = _norm(module, params, x) if config.target_layers else x
    return Level(logits(params, x))

  rows = tokens[:, 1:], read[:, :-1]
  _, x, cache = causal_pass(module, params, rows, cache)
  x = at(x, roots - 1)
  yield level_of(x)
  slot = jnp.arange(S, dtype=jnp.int32)
  root = jnp.arange(W, dtype=jnp.int32)
  slots = slot[None, None]
  text = (slots < roots[..., None]) & (slots < T - 1)
  chain = ((slot - (T - 1)) % W)[None] == root[:, None]
  for level in range(1, D):
    drafted = (slot >= T - 1) & (slot < T - 1 + level * W)
    _, x, cache = module.apply(
      {"params": params},
      at(tokens, roots + level),
      x,
      roots - 1 + level,
      _mask(text | (chain & drafted[None])[None]),
      cache,
    )
    yield level_of(x)


def in_one_pass(module, params, tokens, read, roots, D: int) -> Iterator[Level]:
  """Yields the levels of a one-pass draft."""
  W = roots.shape[1]
  blocks = functools.partial(_blocks, module, params, tokens, read)
  if W <= _ROOTS:
    outputs = blocks(roots)
  else:
    more = jnp.pad(roots, ((0, 0), (0, -W % _ROOTS)), mode="edge")
    parts = more.reshape(len(more), -1, _ROOTS).swapaxes(0, 1)
    outputs = jax.lax.map(blocks, parts).swapaxes(0, 1)
    outputs = outputs.reshape(*more.shape, *outputs.shape[3:])[:, :W]

  def markov(module, *inputs):
    return module.markov(*inputs)

  for level in range(D):
    x, before = outputs[:, :, level], at(tokens, roots + level)
    bias, confidence = module.apply(
      {"params": params}, before, x, method=markov
    )
    yield Level(logits(params, x) + bias, confidence)


def _blocks(module, params, tokens, read, roots) -> jax.Array:
  """Returns the outputs [B, W, K, E] of a block for each root.

  A block sees the text before its root, and its K rows.
  """
  (B, T), W = tokens.shape, roots.shape[1]
  config = dspark.block_of(module.config)
  K = config.size
  block = jnp.full((B, W, K), config.mask, tokens.dtype)
  block = block.at[..., 0].set(at(tokens, roots))
  position = roots[..., None] + jnp.arange(K, dtype=jnp.int32)[None, None]
  before = jnp.broadcast_to(jnp.arange(T, dtype=jnp.int32), (B, T))
  text = before[:, None] < roots[..., None]
  own = jnp.repeat(jnp.eye(W, dtype=bool)[None], K, 2)
  seen = jnp.concatenate([text, jnp.broadcast_to(own, (B, W, W * K))], axis=-1)
  _, outputs, _ = module.apply(
    {"params": params},
    block.reshape(B, -1),
    read,
    jnp.concatenate([before, position.reshape(B, -1)], axis=1),
    _mask(jnp.repeat(seen, K, axis=1)),
    caches.empty(module.config, B, T + W * K),
  )
  return outputs.reshape(B, W, K, -1)


def unembedding(params: dict) -> jax.Array:
  """Returns a model's unembedding [V, E]."""
  return params["unembedding" if "unembedding" in params else "embedding"]


def logits(params: dict, outputs: jax.Array) -> jax.Array:
  """Returns the logits [.., U] of outputs [.., E]."""
  return products.logits(outputs, unembedding(params))


def _mask(seen: jax.Array) -> jax.Array:
  return jnp.where(seen, 0.0, HIDDEN).astype(jnp.float32)


def at(rows: jax.typing.ArrayLike, places: jax.Array) -> jax.Array:
  """Selects [B, W, ..] from rows [B, T, ..] at positions [B, W]."""
  return jax.vmap(lambda row, place: row[place])(rows, places)


def window(rows, first, size: int) -> jax.Array:
  """Selects [B, size, ..] from rows [B, T, ..], starting at first [B]."""
  take = functools.partial(
    jax.lax.dynamic_slice_in_dim, slice_size=size, axis=0
  )
  return jax.vmap(lambda row, start: take(row, start))(rows, first)
