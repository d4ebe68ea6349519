"""Drafters that draft all levels in one pass: DSpark and DFlash.

Axes as in drafter.py, and K tokens of a block.
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Iterator

import jax
import jax.numpy as jnp

from tv_jax.drafting import passes
from tv_jax.drafting.drafter import Committed, Drafter, last_committed
from tv_jax.drafting.passes import Level
from tv_jax.models import Cache, mask
from tv_jax.models import cache as caches
from tv_jax.tree import Tree

# Number of roots in a pass over a text. The cost of attention grows with its
# square.
_ROOTS = 32


@dataclasses.dataclass(frozen=True)
class InOnePass(Drafter):
  """A draft that computes the logits for all depths of the tree in one pass.

  A Markov head then adds a bias that depends on the node's token. The cache
  holds only tokens that the target has processed, so not the root. The rows of
  a block follow behind, and the next `begin` overwrites them. The only feature
  of a node is its confidence, if the draft predicts it.
  """

  def prefill(self, params, tokens, following, features, cache: Cache):
    """Processes the target's features of T tokens of a prompt."""
    del following
    return self._pass(params, tokens[:, :0], features, cache.length, cache)[2]

  def begin(self, params, committed: Committed, length, cache: Cache):
    """Processes the new tokens' features and the block, in one pass.

    Example: 10 tokens are committed, 3 of them new. The features of tokens 6, 7
    and 8 go to slots 6, 7 and 8. The block is token 9 followed by mask tokens,
    at positions 9 and up. After a prompt of one token there are no features.
    """
    root = last_committed(committed)
    tokens = self._block(root)[:, 0]
    *block, cache = self._pass(
      params, tokens, committed.features, length - 1, cache
    )
    cache = dataclasses.replace(cache, length=length)
    first = self.extend(
      params, root, None, length[:, None] - 1, None, cache, block
    )
    return *first, block

  def extend(
    self,
    params,
    tokens,
    features: jax.Array | None,
    positions,
    seen: jax.Array | None,
    cache: Cache,
    block,
  ):
    """Adds the Markov head's bias to the logits of the nodes' depth.

    `block` has the logits [B, K, V] and outputs [B, K, E] of the pass.
    """
    del features, seen
    # Positions are the root's plus the depth; the length is the root's plus 1.
    depth = (positions[:, :1] - cache.length[:, None] + 1)[..., None]
    logits, outputs = (jnp.take_along_axis(x, depth, axis=1) for x in block)
    bias, confidence = self.module.apply(
      {"params": params}, tokens, outputs, method="after"
    )
    features = jnp.zeros((*tokens.shape, 0))
    if confidence is not None:
      features = confidence[..., None]
    return logits + bias, features, cache

  def confidence(self, features) -> jax.Array | None:
    """Returns the output of the confidence head, if the draft has one."""
    known = self.module.config.enable_confidence_head
    return features[..., -1] if known else None

  def commit(self, cache: Cache, tree: Tree, root, path, gain) -> Cache:
    """Keeps the rows of tokens that the target has processed."""
    del tree, path, gain
    return dataclasses.replace(cache, length=root)

  def _block(self, roots: jax.Array) -> jax.Array:
    """Returns the block [B, W, K] of each root [B, W]: the root, then masks."""
    config = self.module.config
    masks = (*roots.shape, config.block_size - 1)
    masks = jnp.full(masks, config.mask_token_id, roots.dtype)
    return jnp.concatenate([roots[..., None], masks], axis=-1)

  def _pass(self, params, tokens, features, known, cache: Cache):
    """Runs the module on features, and on a block behind them.

    Args:
      params: The draft's parameters.
      tokens: [B, K] Tokens of the block, or [B, 0] for none.
      features: [B, T, J] Target features of consecutive tokens.
      known: [B] Number of tokens before the block.
      cache: The draft's cache. Its length is the position of the first feature.

    Returns:
      The logits, outputs and cache of the module.
    """
    T, K = features.shape[1], tokens.shape[1]
    positions = [
      start[:, None] + jnp.arange(count, dtype=jnp.int32)[None]
      for start, count in ((cache.length, T), (known, K))
    ]
    return self.module.apply(
      {"params": params},
      tokens,
      features,
      jnp.concatenate(positions, axis=1),
      mask.block(known, cache.length + T, K, cache.slots),
      cache,
    )

  def teacher_forced(
    self, params, tokens, read, roots, D: int
  ) -> Iterator[Level]:
    """Yields levels; every root needs a block of its own."""
    W = roots.shape[1]
    blocks = functools.partial(self._blocks, params, tokens, read)
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
      x, before = outputs[:, :, level], passes.at(tokens, roots + level)
      bias, confidence = self.module.apply(
        {"params": params}, before, x, method=markov
      )
      yield Level(passes.logits(params, x) + bias, confidence)

  def _blocks(self, params, tokens, read, roots) -> jax.Array:
    """Returns the outputs [B, W, K, E] of a block for each root.

    A block sees the text before its root, and its K rows.
    """
    (B, T), W = tokens.shape, roots.shape[1]
    block = self._block(passes.at(tokens, roots))
    K = block.shape[-1]
    position = roots[..., None] + jnp.arange(K, dtype=jnp.int32)[None, None]
    before = jnp.broadcast_to(jnp.arange(T, dtype=jnp.int32), (B, T))
    text = before[:, None] < roots[..., None]
    own = jnp.repeat(jnp.eye(W, dtype=bool)[None], K, 2)
    own = jnp.broadcast_to(own, (B, W, W * K))
    seen = jnp.concatenate([text, own], axis=-1)
    _, outputs, _ = self.module.apply(
      {"params": params},
      block.reshape(B, -1),
      read,
      jnp.concatenate([before, position.reshape(B, -1)], axis=1),
      mask.additive(jnp.repeat(seen, K, axis=1)),
      caches.empty(self.module.config, B, T + W * K),
    )
    return outputs.reshape(B, W, K, -1)
