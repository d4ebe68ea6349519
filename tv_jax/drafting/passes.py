"""What models say of a text, in teacher-forced passes; a draft level by level.

A cycle that begins at place t of the text (its root is token t) drafts a chain;
while the chain is the text's own, its level j + 1 is the law of token t + j + 1
given what the draft had at t. An independent draft's law depends on the tokens
alone. An EAGLE head had the target's features up to t - 1, and makes do with
its own after that, so that each root has a chain of passes of its own. So has a
draft of one pass, which has a block for each root.

Axes: B rows, T tokens, W roots of a row, D levels, E embedding, J what a draft
reads of a token, K rows of a block, U tokens that the draft knows, V
vocabulary.
"""

from __future__ import annotations

import functools
from collections.abc import Iterator, Sequence
from typing import NamedTuple

import jax
import jax.numpy as jnp

from tv_jax.models import Model, decoder, dspark, eagle, eagle3
from tv_jax.models import cache as caches
from tv_jax.models.mask import HIDDEN

# Roots whose blocks one pass has: attention's scores grow with their square.
_ROOTS = 32


class Level(NamedTuple):
  """What a draft says of one level."""

  logits: jax.Array  # [B, W, U] float32
  # [B, W] how sure it is that the token is accepted; None: it does not say.
  sure: jax.Array | None = None


def features(module, params, tokens: jax.Array) -> jax.Array:
  """Returns a model's features [B, T, J], each token seeing those before."""
  B, T = tokens.shape
  place = jnp.broadcast_to(jnp.arange(T, dtype=jnp.int32), (B, T))
  seen = _seen(jnp.tri(T, dtype=bool)[None])
  cache = caches.empty(module.config, B, T)
  return module.apply({"params": params}, tokens, place, seen, cache)[1]


def of_target(
  target: Model, layers: Sequence[int], tokens
) -> tuple[jax.Array, jax.Array]:
  """Returns what is read of a target, in one pass of it.

  Args:
    target: The target.
    layers: Those whose outputs a draft reads; none: it reads the features.
    tokens: [B, T].

  Returns:
    The features [B, T, E], after the final norm; and what a draft reads of
    those layers [B, T, J], or these features.
  """
  last = target.config.num_hidden_layers - 1
  module = target.module.clone(outputs=(*layers, last) if layers else ())
  return _of_target(module, target.params, tokens)


@functools.partial(jax.jit, static_argnums=0)
def _of_target(module, params, tokens):
  x = features(module, params, tokens)
  J = x.shape[-1] - module.config.hidden_size
  return (_normed(module, params, x[..., J:]), x[..., :J]) if J else (x, x)


def _normed(module, params, x):
  """Returns x after the model's final norm."""
  scale = params["norm"]["scale"]
  return decoder.rms_norm(x, scale, module.config.rms_norm_eps)


def independent(
  module, params, tokens, theirs, roots, D: int
) -> Iterator[Level]:
  """Yields the levels of an independent draft."""
  del theirs
  x = features(module, params, tokens)
  for level in range(D):
    yield Level(logits(params, at(x, roots + level)))


def on_features(
  module, params, tokens, theirs, roots, D: int
) -> Iterator[Level]:
  """Yields the levels of an EAGLE-1 or EAGLE-3 head.

  Entry m pairs token m + 1 with feature m. A root's own chain sees entries up
  to t - 1 with the target's features, and itself: it lies behind them in the
  cache, the roots of one level together.
  """
  config = module.config
  (B, T), W = tokens.shape, roots.shape[1]
  S = T - 1 + (D - 1) * W
  place = jnp.broadcast_to(jnp.arange(T - 1, dtype=jnp.int32), (B, T - 1))
  before = jnp.tri(T - 1, S, dtype=bool)[None]
  cache = caches.empty(config, B, S)

  def level_of(x):
    if config.target_layers:  # EAGLE-3's features come before its last norm
      x = _normed(module, params, x)
    return Level(logits(params, x))

  _, x, cache = module.apply(
    {"params": params},
    tokens[:, 1:],
    theirs[:, :-1],
    place,
    _seen(before),
    cache,
  )
  x = at(x, roots - 1)
  yield level_of(x)
  slot = jnp.arange(S, dtype=jnp.int32)
  root = jnp.arange(W, dtype=jnp.int32)
  chain = ((slot - (T - 1)) % W)[None] == root[:, None]
  for level in range(1, D):
    text = slot[None, None] < roots[..., None]
    behind = (slot >= T - 1) & (slot < T - 1 + level * W)
    _, x, cache = module.apply(
      {"params": params},
      at(tokens, roots + level),
      x,
      roots - 1 + level,
      _seen((text & (slot < T - 1)[None, None]) | (chain & behind[None])[None]),
      cache,
    )
    yield level_of(x)


def in_one_pass(
  module, params, tokens, theirs, roots, D: int
) -> Iterator[Level]:
  """Yields the levels of a draft of one pass."""
  W = roots.shape[1]
  blocks = functools.partial(_blocks, module, params, tokens, theirs)
  if W <= _ROOTS:
    outputs = blocks(roots)
  else:
    more = jnp.pad(roots, ((0, 0), (0, -W % _ROOTS)), mode="edge")
    parts = more.reshape(len(more), -1, _ROOTS).swapaxes(0, 1)
    outputs = jax.lax.map(blocks, parts).swapaxes(0, 1)
    outputs = outputs.reshape(*more.shape, *outputs.shape[3:])[:, :W]

  def after(module, *inputs):
    return module.markov(*inputs)

  state = module.state(roots)
  for level in range(D):
    x = outputs[:, :, level]
    before = at(tokens, roots + level)
    bias, state, sure = module.apply(
      {"params": params}, before, x, state, method=after
    )
    yield Level(logits(params, x) + bias, sure)


def _blocks(module, params, tokens, theirs, roots) -> jax.Array:
  """Returns outputs [B, W, K, E] of the roots' blocks.

  Each sees what was read before its root, and itself.
  """
  (B, T), W = tokens.shape, roots.shape[1]
  config = dspark.block_of(module.config)
  K = config.size
  block = jnp.full((B, W, K), config.mask, tokens.dtype)
  block = block.at[..., 0].set(at(tokens, roots))
  places = roots[..., None] + jnp.arange(K, dtype=jnp.int32)[None, None]
  before = jnp.broadcast_to(jnp.arange(T, dtype=jnp.int32), (B, T))
  text = before[:, None] < roots[..., None]
  same = jnp.eye(W, dtype=bool)[None]
  seen = jnp.concatenate(
    [text, jnp.broadcast_to(jnp.repeat(same, K, 2), (B, W, W * K))], axis=-1
  )
  _, outputs, _ = module.apply(
    {"params": params},
    block.reshape(B, -1),
    theirs,
    jnp.concatenate([before, places.reshape(B, -1)], axis=1),
    _seen(jnp.repeat(seen, K, axis=1)),
    caches.empty(module.config, B, T + W * K),
  )
  return outputs.reshape(B, W, K, -1)


_LEVELS = {
  decoder.Decoder: independent,
  eagle.Eagle: on_features,
  eagle3.Eagle3: on_features,
  dspark.DSpark: in_one_pass,
}


def levels(
  module, params, tokens, features, roots: jax.Array, D: int
) -> Iterator[Level]:
  """Yields what a draft says of each level.

  Args:
    module: The draft's.
    params: The draft's.
    tokens: [B, T]; what is behind a row's last one is not seen.
    features: [B, T, J] of the target.
    roots: [B, W] the places of the roots, 1 at least; T is at least the largest
      of them + 1 + D.
    D: The levels.
  """
  draft = _LEVELS[type(module)]
  return draft(module, params, tokens, features, roots, D)


def unembedding(params: dict) -> jax.Array:
  """Returns a model's unembedding [E, V]."""
  return params["unembedding" if "unembedding" in params else "embedding"]


def logits(params: dict, outputs: jax.Array) -> jax.Array:
  """Unembeds [.., E] to the logits [.., U] of the tokens that a draft knows."""
  return decoder.logits(outputs, unembedding(params))


def _seen(which: jax.Array) -> jax.Array:
  return jnp.where(which, 0.0, HIDDEN).astype(jnp.float32)


def at(rows: jax.typing.ArrayLike, places: jax.Array) -> jax.Array:
  """Returns [B, W, ..] of each row [B, T, ..] at places [B, W]."""
  return jax.vmap(lambda row, place: row[place])(rows, places)


def window(rows, first, size: int) -> jax.Array:
  """Returns [B, size, ..] of each row [B, T, ..] from a place of its own."""
  take = functools.partial(
    jax.lax.dynamic_slice_in_dim, slice_size=size, axis=0
  )
  return jax.vmap(lambda row, start: take(row, start))(rows, first)
