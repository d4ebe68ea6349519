"""What a way of drafting does.

Axes: B batch, N nodes, D depth, V vocabulary, E embedding, T tokens of a pass,
J what a draft reads of each token: the target's E after its final norm, or E of
each of the draft's `Config.target_layers`.
"""

from __future__ import annotations

import dataclasses
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from tv_jax import models
from tv_jax.models import Cache, Model
from tv_jax.tree import Adaptive, Tree


class Committed(NamedTuple):
  """What a cycle committed, the token before it first.

  In a tree of depth 3, after two accepted nodes and a bonus token:
  tokens = [old root, first, second, bonus, -], gain = 3; features = those of
  [old root, first, second, -], each to be paired with the token after it.
  """

  tokens: jax.Array  # [B, D + 2] int32
  features: jax.Array  # [B, D + 1, J] the target's, of the token before each
  gain: jax.Array  # [B] int32: how many tokens are new; 0 in a finished row


@dataclasses.dataclass(frozen=True)
class Drafter:
  """A way of drafting: a subclass, and a line of `kinds.KINDS`.

  A subclass defines `prefill`, `begin` and `extend`. It is static in a
  compiled program, and holds no arrays.

  A node that has no children is never processed. Rows of the cache during a
  cycle: the root in the last slot of what is committed, and behind it the other
  inner nodes in level order.

  Attributes:
    module: The draft model's Linen module.
    stop: Nothing is drafted below a node of which `confidence` is less; 0: it
      is not asked.
  """

  module: Any
  stop: float = 0.0

  @property
  def block(self) -> int:
    """Returns how many levels it drafts in one pass; 0: a pass for each."""
    return 0

  @staticmethod
  def load(
    draft_kind: str,
    path,
    target: Model,
    *,
    dtype,
    split: bool,
    revision: str | None,
  ) -> Model:
    """Loads its model, from a directory or a hub repository at `revision`.

    A draft on features has its target's dtype and is split as that; `dtype` (as
    of `models.load`) and `split` are for a model of its own.
    """
    del dtype, split
    return models.load(
      path, revision=revision, target=target, draft_kind=draft_kind
    )

  def prefill(
    self,
    params,
    tokens: jax.Array,  # [B, T]
    following: jax.Array,  # [B, T] the token after each
    features: jax.Array,  # [B, T, J] of each, by the target
    cache: Cache,  # with the tokens before these
  ) -> Cache:
    """Reads T tokens of a prompt."""
    raise NotImplementedError

  def begin(
    self, params, committed: Committed, length: jax.Array, cache: Cache
  ) -> tuple[jax.Array, jax.Array, Cache]:
    """Catches up with `length` [B] committed tokens.

    Returns:
      The logits [B, 1, V] and features [B, 1, E] of the root, and the cache, in
      whose last slot the root is.
    """
    raise NotImplementedError

  def extend(
    self,
    params,
    tokens: jax.Array,  # [B, T]
    features: jax.Array,  # [B, T, E] its own, of their parents
    positions: jax.Array,  # [B, T]
    seen: jax.Array,  # [B, T, S] the mask
    cache: Cache,
  ) -> tuple[jax.Array, jax.Array, Cache]:
    """Processes the nodes of a level.

    Returns:
      Their logits [B, T, V] and features [B, T, E], and the cache.
    """
    raise NotImplementedError

  def confidence(self, features: jax.Array) -> jax.Array | None:
    """Returns how sure it is that a next token will be accepted: [B, T].

    By its own `features` [B, T, ..] of nodes; None: it does not say. It depends
    on a node's token and those above alone, so what is drafted below may depend
    on it.
    """
    del features

  def commit(
    self,
    cache: Cache,  # with inner node i of the tree in slot root + i
    tree: Tree | Adaptive,
    root: jax.Array,  # [B] the slot of the root
    path: jax.Array,  # [B, D + 1] the accepted nodes, from the root down
    gain: jax.Array,  # [B] how many of them are accepted
  ) -> Cache:
    """Forgets what was rejected; by default all that was drafted."""
    del tree, path, gain
    return dataclasses.replace(cache, length=root + 1)


def take_row(outputs, row, length):
  """Takes the logits and features of one row [B], with a cache of `length`."""
  logits, features, cache = outputs
  row = row[:, None, None]
  return (
    jnp.take_along_axis(logits, row, axis=1),
    jnp.take_along_axis(features, row, axis=1),
    dataclasses.replace(cache, length=length),
  )


def last_committed(committed: Committed) -> jax.Array:
  """Returns the last committed token of each row: [B, 1]."""
  last = jnp.maximum(committed.gain, 1)[:, None]
  return jnp.take_along_axis(committed.tokens, last, axis=1)
