"""Draft models: how they read prompts, keep up, and forget.

Axes: B batch, N nodes, D depth, V vocabulary, E embedding, T query length.

Two kinds of draft model, with the same functions: `prefill` reads the prompt,
`begin` reads what the last cycle committed and gives the law after the tree's
root, `extend` processes a level, `commit` forgets what was rejected.

A node that has no children is never processed. Rows of the cache during a
cycle: the root in the last slot of what is committed, and behind it the other
inner nodes in level order.
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from tv_jax.models import Cache, compact, mask
from tv_jax.tree import Adaptive, Tree


class News(NamedTuple):
  """What a cycle committed, the token before it first.

  In a tree of depth 3, after two accepted nodes and a bonus token:
  tokens = [old root, first, second, bonus, -], gain = 3; features = those of
  [old root, first, second, -], each to be paired with the token after it.
  """

  tokens: jax.Array  # [B, D + 2] int32
  features: jax.Array  # [B, D + 1, E] the target's, of the token before each
  gain: jax.Array  # [B] int32: how many tokens are new; 0 in a finished row


@dataclasses.dataclass(frozen=True)
class Independent:
  """A language model of its own, such as a small Llama.

  It never processed the leaves, so the last accepted token may be missing from
  its cache: it takes that and the bonus token together, where the former is at
  worst a row that is rewritten with itself.
  """

  apply: Callable

  def prefill(self, params, tokens, following, features, cache: Cache):
    """Reads T tokens of a prompt.

    Args:
      params: The draft's.
      tokens: [B, T].
      following: [B, T] the token after each.
      features: [B, T, E] of each, by the target.
      cache: In which the tokens before these are.

    Returns:
      The cache.
    """
    del following, features
    seen = mask.causal(cache.length, tokens.shape[1], cache.slots)
    positions = cache.length[:, None] + _counting(tokens.shape[1])
    return self.apply(params, tokens, positions, seen, cache)[2]

  def prefilled(self, length: jax.Array) -> jax.Array:
    """How many of the rows of a prompt of `length` are to be kept."""
    return jnp.maximum(length - 2, 0)

  def begin(self, params, news: News, length, cache: Cache):
    """Catches up with `length` [B] committed tokens.

    With 10 tokens committed it takes tokens 8 and 9, into slots 8 and 9; from a
    single token, that one twice.

    Returns:
      The logits [B, 1, V] and features [B, 1, E] of the root, and the cache, in
      whose last slot the root is.
    """
    start = jnp.maximum(length - 2, 0)
    last = jnp.maximum(news.gain, 1)[:, None]
    older = jnp.where((length == 1)[:, None], last, last - 1)
    tokens = jnp.take_along_axis(
      news.tokens, jnp.concatenate([older, last], axis=1), axis=1
    )
    logits, features, cache = self.apply(
      params,
      tokens,
      start[:, None] + _counting(2),
      mask.causal(start, 2, cache.slots),
      dataclasses.replace(cache, length=start),
    )
    place = (length - 1 - start)[:, None, None]
    return (
      jnp.take_along_axis(logits, place, axis=1),
      jnp.take_along_axis(features, place, axis=1),
      dataclasses.replace(cache, length=length),
    )

  def extend(self, params, tokens, features, positions, seen, cache: Cache):
    """Processes the nodes of a level; `features` are their parents'."""
    del features
    return self.apply(params, tokens, positions, seen, cache)

  def commit(
    self, cache: Cache, tree: Tree | Adaptive, root, path, gain
  ) -> Cache:
    """Keeps the accepted path but its last node.

    Args:
      cache: With inner node i of the tree in slot root + i.
      tree: The tree.
      root: [B] the slot of the root.
      path: [B, D + 1] the accepted nodes, from the root down.
      gain: [B] how many of them are accepted.

    Returns:
      The cache.
    """
    kept = jnp.maximum(gain - 1, 0)
    if tree.is_chain:  # it lies where it is to stay
      return dataclasses.replace(cache, length=root + kept)
    return compact(cache, root, jnp.asarray(place_of(tree))[path], kept)


@dataclasses.dataclass(frozen=True)
class OnFeatures:
  """An EAGLE head, which reads the target's features.

  While drafting it makes do with its own; everything that was committed it is
  fed again with the target's, in D + 1 slots of which `gain` are real.
  """

  apply: Callable

  def prefill(self, params, tokens, following, features, cache: Cache):
    """Reads a prompt; see `Independent.prefill`."""
    seen = mask.causal(cache.length, tokens.shape[1], cache.slots)
    positions = cache.length[:, None] + _counting(tokens.shape[1])
    return self.apply(params, following, features, positions, seen, cache)[2]

  def prefilled(self, length: jax.Array) -> jax.Array:
    """How many pairs of a prompt are to be kept: all but the last."""
    return jnp.maximum(length - 2, 0)

  def begin(self, params, news: News, length, cache: Cache):
    """Catches up; see `Independent.begin`."""
    del length
    T = news.features.shape[1]
    start = cache.length
    logits, features, cache = self.apply(
      params,
      news.tokens[:, 1:],
      news.features,
      start[:, None] + _counting(T),
      mask.causal(start, T, cache.slots),
      cache,
    )
    place = jnp.maximum(news.gain - 1, 0)[:, None, None]
    return (
      jnp.take_along_axis(logits, place, axis=1),
      jnp.take_along_axis(features, place, axis=1),
      dataclasses.replace(cache, length=start + news.gain),
    )

  def extend(self, params, tokens, features, positions, seen, cache: Cache):
    """Processes the nodes of a level; `features` are their parents'."""
    return self.apply(params, tokens, features, positions, seen, cache)

  def commit(
    self, cache: Cache, tree: Tree | Adaptive, root, path, gain
  ) -> Cache:
    """Drops all that was drafted; see `Independent.commit`."""
    del tree, path, gain
    return dataclasses.replace(cache, length=root + 1)


# By `draft_kind`: what makes a draft model of a model's `apply`.
KINDS = {"llama": Independent, "eagle": OnFeatures}


@functools.lru_cache(maxsize=256)
def place_of(tree: Tree | Adaptive) -> np.ndarray:
  """[N] the place of an inner node among the inner ones; 0 for a leaf."""
  place = np.zeros(len(tree), np.int32)
  place[tree.inner] = np.arange(len(tree.inner))
  return place


def _counting(length: int) -> jax.Array:
  return jnp.arange(length, dtype=jnp.int32)[None]
