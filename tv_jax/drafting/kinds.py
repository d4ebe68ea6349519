"""Drafters with one pass per level, and the table of all kinds.

drafter.py describes the functions and the axes.
"""

from __future__ import annotations

import dataclasses
import functools

import jax.numpy as jnp
import numpy as np

from tv_jax.drafting.drafter import Committed, Drafter, take_at
from tv_jax.drafting.in_one_pass import InOnePass
from tv_jax.models import Cache, causal_pass, compact
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
    return take_at(outputs, length - 1 - start, length)

  def extend(self, params, tokens, features, positions, seen, cache: Cache):
    """Processes the tokens; features are not used."""
    del features
    return self.module.apply({"params": params}, tokens, positions, seen, cache)

  def commit(self, cache: Cache, tree: Tree, root, path, gain) -> Cache:
    """Keeps the accepted path without its last node."""
    kept = jnp.maximum(gain - 1, 0)
    if tree.is_chain:  # the accepted nodes are in place already
      return dataclasses.replace(cache, length=root + kept)
    return compact(cache, root, jnp.asarray(place_of(tree))[path], kept)


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
    return take_at(outputs, last, cache.length + committed.gain)

  def extend(self, params, tokens, features, positions, seen, cache: Cache):
    """Processes the tokens with the features of their parents."""
    return self.module.apply(
      {"params": params}, tokens, features, positions, seen, cache
    )


# The drafter of each kind of draft.
KINDS: dict[str, type[Drafter]] = {
  "independent": Independent,
  "eagle": OnFeatures,
  "eagle3": OnFeatures,
  "dspark": InOnePass,
}


@functools.lru_cache(maxsize=256)
def place_of(tree: Tree) -> np.ndarray:
  """Returns [N], each node's index in `tree.inner`; 0 for a leaf."""
  place = np.zeros(len(tree), np.int32)
  place[tree.inner] = np.arange(len(tree.inner))
  return place
