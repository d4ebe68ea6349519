"""Drafts all levels in one pass: DSpark, DFlash.

Axes as in drafter.py, and K rows of a block.
"""

from __future__ import annotations

import dataclasses

import jax
import jax.numpy as jnp

from tv_jax.drafting.drafter import Committed, Drafter, last_committed
from tv_jax.models import Cache, dspark, mask
from tv_jax.tree import Adaptive, Tree


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True, kw_only=True)
class Passed(Cache):
  """A cache, and what a pass over a block gave at each of its places."""

  logits: jax.Array  # [B, K, V]
  outputs: jax.Array  # [B, K, E]


@dataclasses.dataclass(frozen=True)
class InOnePass(Drafter):
  """A draft whose pass gives each depth its logits; a token adds its own.

  Its cache has rows of what the target has processed, and of nothing else: the
  root is not among them. A block's rows lie behind those of a catch-up, and are
  overwritten by the next one. What a node hands down to its children in the
  place of features is the state of its Markov head and, last, how sure it is.
  """

  @property
  def block(self) -> int:
    """Returns K."""
    return dspark.block_of(self.module.config).size

  def prefill(self, params, tokens, following, features, cache: Cache):
    """Reads the features of T tokens of a prompt."""
    del following
    return self._pass(params, tokens[:, :0], features, cache.length, cache)[2]

  def begin(self, params, committed: Committed, length, cache: Cache):
    """Catches up, and makes the pass.

    With 10 tokens committed, 3 of them new: the features of tokens 6, 7 and 8
    go to slots 6, 7, 8, and the block is token 9 and masks, at positions 9 and
    up. Of a prompt of one token nothing is known.
    """
    block = dspark.block_of(self.module.config)
    root = last_committed(committed)
    masks = jnp.full((len(root), block.size - 1), block.mask, root.dtype)
    logits, outputs, cache = self._pass(
      params,
      jnp.concatenate([root, masks], axis=1),
      committed.features,
      length - 1,
      cache,
    )
    cache = Passed(
      keys=cache.keys,
      values=cache.values,
      length=length,
      logits=logits,
      outputs=outputs,
    )
    return self.extend(
      params, root, self.module.state(root), length[:, None] - 1, None, cache
    )

  def extend(
    self,
    params,
    tokens,
    features,
    positions,
    seen: jax.Array | None,
    cache: Cache,
  ):
    """Adds what the nodes of a level say; `features` are parents' states."""
    del seen
    assert isinstance(cache, Passed)
    depth = (positions[:, :1] - cache.length[:, None] + 1)[..., None]
    logits, outputs = (
      jnp.take_along_axis(x, depth, axis=1)
      for x in (cache.logits, cache.outputs)
    )
    state = self.module.state(tokens)
    above = features[..., : state.shape[-1]].astype(state.dtype)
    bias, state, sure = self.module.apply(
      {"params": params}, tokens, outputs, above, method="after"
    )
    if sure is not None:  # beside the state, in no less than its own precision
      state = jnp.concatenate(
        [state.astype(sure.dtype), sure[..., None]], axis=-1
      )
    return logits + bias, state, cache

  def confidence(self, features) -> jax.Array | None:
    """Returns what its confidence head says, if it has one."""
    known = dspark.block_of(self.module.config).confidence
    return features[..., -1] if known else None

  def commit(
    self, cache: Cache, tree: Tree | Adaptive, root, path, gain
  ) -> Cache:
    """Keeps what was known."""
    del tree, path, gain
    return dataclasses.replace(cache, length=root)

  def _pass(self, params, tokens, features, known, cache: Cache):
    """Processes features into the cache's rows, and a block behind them.

    Args:
      params: The draft's.
      tokens: [B, K] the block; or [B, 0].
      features: [B, T, X] of tokens; the first one's slot is its position.
      known: [B] how many tokens there are before the block.
      cache: The draft's.

    Returns:
      What the module does.
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
