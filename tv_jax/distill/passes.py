"""What a draft says of a text, level by level, in one teacher-forced pass.

A cycle that begins at place t of the text (its root is token t) drafts a chain;
while the chain is the text's own, its level j + 1 is the law of token t + j + 1
given what the draft had at t. An independent draft's law depends on the tokens
alone. An EAGLE head had the target's features up to t - 1, and makes do with
its own after that, so that each root has a chain of passes of its own.

Axes: B rows, T tokens, W roots of a row, D levels, E embedding, J what a draft
reads of a token, U tokens that the draft knows, V vocabulary.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import NamedTuple

import jax
import jax.numpy as jnp

from tv_jax.models import cache as caches
from tv_jax.models import decoder, products
from tv_jax.models.config import Config
from tv_jax.models.mask import HIDDEN


class Draft(NamedTuple):
  """What a draft is, without its parameters; static in a compiled program."""

  kind: str  # of `drafting.KINDS`
  apply: Callable
  config: Config

  def outputs(self, params, tokens, features, first, W: int, D: int):
    """Returns what the draft's unembedding takes: D arrays [B, W, E].

    Args:
      params: The draft's.
      tokens: [B, T]; what is behind a row's last one is not seen.
      features: [B, T, J] of the target.
      first: [B] the first root of each row, 1 at least; T is at least the
        largest of them + W + D.
      W: How many roots there are in a row, one behind the other.
      D: The levels.
    """
    return OUTPUTS[self.kind](
      self.apply, self.config, params, tokens, features, first, W, D
    )


def features(apply, config: Config, params, tokens: jax.Array) -> jax.Array:
  """Returns a model's features [B, T, J], each token seeing those before."""
  B, T = tokens.shape
  place = jnp.broadcast_to(jnp.arange(T, dtype=jnp.int32), (B, T))
  seen = _seen(jnp.tri(T, dtype=bool)[None])
  return apply(params, tokens, place, seen, caches.empty(config, B, T))[1]


def independent(
  apply, config: Config, params, tokens, theirs, first, W: int, D: int
) -> list[jax.Array]:
  """Returns what an independent draft's unembedding takes, by level."""
  del theirs
  found = features(apply, config, params, tokens)
  return [window(found, first + level, W) for level in range(D)]


def eagle(
  apply, config: Config, params, tokens, theirs, first, W: int, D: int
) -> list[jax.Array]:
  """Returns what an EAGLE head's unembedding takes, by level.

  Entry m pairs token m + 1 with feature m. A root's own chain sees entries up
  to t - 1 with the target's features, and itself: it lies behind them in the
  cache, the roots of one level together.
  """
  B, T = tokens.shape
  S = T - 1 + (D - 1) * W
  place = jnp.broadcast_to(jnp.arange(T - 1, dtype=jnp.int32), (B, T - 1))
  before = jnp.tri(T - 1, S, dtype=bool)[None]
  cache = caches.empty(config, B, S)
  _, x, cache = apply(
    params, tokens[:, 1:], theirs[:, :-1], place, _seen(before), cache
  )
  x = window(x, first - 1, W)
  found = [x]
  root = first[:, None] + jnp.arange(W, dtype=jnp.int32)[None]
  slot = jnp.arange(S, dtype=jnp.int32)
  own = ((slot - (T - 1)) % W)[None] == jnp.arange(W, dtype=jnp.int32)[:, None]
  for level in range(1, D):
    given = slot[None, None] < root[..., None]
    behind = (slot >= T - 1) & (slot < T - 1 + level * W)
    _, x, cache = apply(
      params,
      window(tokens, first + level, W),
      x,
      root - 1 + level,
      _seen((given & (slot < T - 1)[None, None]) | (own & behind[None])[None]),
      cache,
    )
    found.append(x)
  return found


def eagle3(apply, config: Config, params, *given) -> list[jax.Array]:
  """Returns what an EAGLE-3 head's unembedding takes, by level."""
  scale = params["params"]["norm"]
  return [
    decoder.rms_norm(x, scale, config.rms_norm_eps)
    for x in eagle(apply, config, params, *given)
  ]


# By `draft_kind`.
OUTPUTS: dict[str, Callable] = {
  "independent": independent,
  "eagle": eagle,
  "eagle3": eagle3,
}


def logits(params: dict, outputs: jax.Array) -> jax.Array:
  """Unembeds [.., E] to the logits [.., U] of the tokens that a draft knows."""
  own = params["params"]
  matrix = own["unembedding"] if "unembedding" in own else own["embedding"]
  flat = outputs.reshape(1, -1, outputs.shape[-1])
  found = products.product(flat, products.unboxed(matrix), jnp.float32)
  return found.reshape(*outputs.shape[:-1], -1)


def _seen(which: jax.Array) -> jax.Array:
  return jnp.where(which, 0.0, HIDDEN).astype(jnp.float32)


def window(rows, first, size: int) -> jax.Array:
  """Returns [B, size, ..] of each row [B, T, ..] from a place of its own."""
  take = functools.partial(
    jax.lax.dynamic_slice_in_dim, slice_size=size, axis=0
  )
  return jax.vmap(lambda row, start: take(row, start))(rows, first)
