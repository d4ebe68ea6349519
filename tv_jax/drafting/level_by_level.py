"""Drafters with one pass per level: independent models and EAGLE heads.

drafter.py describes the functions and the axes.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator

import jax
import jax.numpy as jnp

from tv_jax.drafting import passes
from tv_jax.drafting.drafter import Committed, Drafter, at_root
from tv_jax.drafting.passes import Level
from tv_jax.models import Cache, causal_pass, compact, decoder, mask
from tv_jax.models import cache as caches
from tv_jax.tree import Tree


@dataclasses.dataclass(frozen=True)
class Independent(Drafter):
  """A separate language model, such as a small Llama.

  The draft does not process leaves, so its cache lacks the last accepted token
  if this was a leaf. `begin` therefore processes the last accepted token
  together with the bonus token. If the token was in the cache already, its row
  is overwritten with the same values.
  """

  def prefill(self, params, tokens, following, features, cache: Cache):
    """Processes the tokens; the target's features are not used."""
    del following, features
    return causal_pass(self.module, params, (tokens,), cache)[2]

  def begin(self, params, committed: Committed, length, cache: Cache):
    """Processes the last two committed tokens.

    Example: with 10 tokens committed, it processes tokens 8 and 9 and writes
    slots 8 and 9. If only one token is committed in all, it is processed twice.
    """
    start = jnp.maximum(length - 2, 0)
    last = jnp.maximum(committed.gain, 1)[:, None]
    older = jnp.where((length == 1)[:, None], last, last - 1)
    tokens = jnp.take_along_axis(
      committed.tokens, jnp.concatenate([older, last], axis=1), axis=1
    )
    cache = dataclasses.replace(cache, length=start)
    outputs = causal_pass(self.module, params, (tokens,), cache)
    return at_root(outputs, length - 1 - start, length)

  def extend(self, params, tokens, features, positions, seen, cache, block):
    """Processes the tokens; features are not used."""
    del features, block
    return self.module.apply({"params": params}, tokens, positions, seen, cache)

  def commit(self, cache: Cache, tree: Tree, root, path, gain) -> Cache:
    """Keeps the accepted path without its last node."""
    kept = jnp.maximum(gain - 1, 0)
    if tree.is_chain:  # the accepted nodes are in place already
      return dataclasses.replace(cache, length=root + kept)
    return compact(cache, root, jnp.asarray(tree.inner_index)[path], kept)

  def teacher_forced(
    self, params, tokens, read, roots, D: int
  ) -> Iterator[Level]:
    """Yields levels of all roots from a single pass over the text."""
    del read
    x = passes.features(self.module, params, tokens)
    for level in range(D):
      yield Level(passes.logits(params, passes.at(x, roots + level)))


@dataclasses.dataclass(frozen=True)
class OnFeatures(Drafter):
  """An EAGLE head, which reads the target's features.

  While drafting, the head reads the features that it computes itself. After
  verification it is run again on the `gain` committed tokens with the target's
  features, in a pass of D + 1 tokens whose rest is padding. An EAGLE-3 head
  distinguishes the two kinds of features by their width.
  """

  def prefill(self, params, tokens, following, features, cache: Cache):
    """Processes each feature together with the token after it."""
    del tokens
    return causal_pass(self.module, params, (following, features), cache)[2]

  def begin(self, params, committed: Committed, length, cache: Cache):
    """Processes all new tokens with the target's features."""
    del length
    rows = committed.tokens[:, 1:], committed.features
    outputs = causal_pass(self.module, params, rows, cache)
    last = jnp.maximum(committed.gain - 1, 0)
    return at_root(outputs, last, cache.length + committed.gain)

  def extend(self, params, tokens, features, positions, seen, cache, block):
    """Processes the tokens with the features of their parents."""
    del block
    return self.module.apply(
      {"params": params}, tokens, features, positions, seen, cache
    )

  def teacher_forced(
    self, params, tokens, read, roots, D: int
  ) -> Iterator[Level]:
    """Yields levels; every root needs a chain of passes, as in drafting.

    Entry m of the head's cache pairs token m + 1 with feature m. The chain of
    root t sees the entries up to t - 1, made from the target's features, and
    its own entries. All chains' entries follow the text's, level by level.
    """
    (B, T), W = tokens.shape, roots.shape[1]
    S = T - 1 + (D - 1) * W
    rows = tokens[:, 1:], read[:, :-1]
    cache = caches.empty(self.module.config, B, S)
    _, x, cache = causal_pass(self.module, params, rows, cache)
    x = passes.at(x, roots - 1)
    yield self._level(params, x)
    slot = jnp.arange(S, dtype=jnp.int32)
    root = jnp.arange(W, dtype=jnp.int32)
    slots = slot[None, None]
    text = (slots < roots[..., None]) & (slots < T - 1)
    chain = ((slot - (T - 1)) % W)[None] == root[:, None]
    for level in range(1, D):
      drafted = (slot >= T - 1) & (slot < T - 1 + level * W)
      _, x, cache = self.extend(
        params,
        passes.at(tokens, roots + level),
        x,
        roots - 1 + level,
        mask.additive(text | (chain & drafted[None])[None]),
        cache,
        None,
      )
      yield self._level(params, x)

  def _level(self, params, x: jax.Array) -> Level:
    """Returns the level with these features."""
    config = self.module.config
    if config.target_layer_ids:  # EAGLE-3's features come before its final norm
      x = decoder.rms_norm(x, params["norm"]["scale"], config.rms_norm_eps)
    return Level(passes.logits(params, x))
