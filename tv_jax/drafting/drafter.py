"""The base class of drafters: the functions of a draft model in a cycle.

Axes: B batch, N nodes, D depth, V vocabulary, E embedding, T tokens of a pass,
J width of the target's features that the draft reads: E after the final norm,
or E times the number of the draft's `Config.target_layer_ids`.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from tv_jax.drafting.passes import Level
from tv_jax.models import Cache
from tv_jax.tree import Tree


class Committed(NamedTuple):
  """The old root, then the tokens that the last cycle committed.

  Example: in a tree of depth 3, two nodes were accepted. Then gain = 3, tokens
  = [old root, first node, second node, bonus, -], and features has the target's
  features of [old root, first node, second node, -]. A head pairs each feature
  with the token after it.
  """

  tokens: jax.Array  # [B, D + 2] int32
  features: jax.Array  # [B, D + 1, J] target features of tokens[:, :-1]
  gain: jax.Array  # [B] int32: number of new tokens; 0 in a finished row


@dataclasses.dataclass(frozen=True)
class Drafter:
  """The functions of a kind of draft model.

  A subclass defines `prefill`, `begin`, `extend` and `teacher_forced`, and is
  listed in `kinds.KINDS`. Drafters are static in compiled programs and hold no
  arrays.

  Leaves of the tree are not run through the draft. During a cycle, the draft's
  cache holds the committed tokens, of which the root is the last, then the
  other nodes with children in level order. An EAGLE head's cache has no slot
  for the first token, since it pairs each feature with the next token. The
  cache of InOnePass keeps only tokens that the target has processed.

  Attributes:
    module: The draft model's Linen module.
    stop: Minimum `confidence` for expanding a node; 0 disables the check.
  """

  module: Any
  stop: float = 0.0

  @property
  def block(self) -> int:
    """Number of levels drafted in one pass; 0 for one pass per level."""
    return self.module.config.block_size

  def prefill(
    self,
    params,
    tokens: jax.Array,  # [B, T]
    following: jax.Array,  # [B, T] the token after each
    features: jax.Array,  # [B, T, J] target features of each
    cache: Cache,  # holds all tokens before these
  ) -> Cache:
    """Processes T tokens of a prompt."""
    raise NotImplementedError

  def begin(
    self, params, committed: Committed, length: jax.Array, cache: Cache
  ) -> tuple[jax.Array, jax.Array, Cache, Any]:
    """Processes the newly committed tokens, up to and including the root.

    Args:
      params: The draft's parameters.
      committed: The newly committed tokens.
      length: [B] Number of all committed tokens.
      cache: The draft's cache.

    Returns:
      The logits [B, 1, V] and features [B, 1, E] at the root, the cache, which
      ends with the root, and what `extend` needs of this pass, if anything.
    """
    raise NotImplementedError

  def extend(
    self,
    params,
    tokens: jax.Array,  # [B, T]
    features: jax.Array,  # [B, T, E] the draft's own features of the parents
    positions: jax.Array,  # [B, T]
    seen: jax.Array,  # [B, T, S] attention mask
    cache: Cache,
    block: Any,  # what `begin` returned for `extend`
  ) -> tuple[jax.Array, jax.Array, Cache]:
    """Processes the nodes of a level.

    Returns:
      The logits [B, T, V] and features [B, T, E] at these nodes, and the cache.
    """
    raise NotImplementedError

  def confidence(self, features: jax.Array) -> jax.Array | None:
    """Estimates the probability that the next token will be accepted.

    The estimate may only depend on the tokens of a node and its ancestors. Then
    it may decide whether the node gets children: verification stays lossless.

    Args:
      features: [B, T, ..] The draft's own features of nodes.

    Returns:
      [B, T], or None if the draft does not estimate it.
    """
    del features

  def commit(
    self,
    cache: Cache,  # i-th node with children is in slot root + i
    tree: Tree,
    root: jax.Array,  # [B] slot of the root
    path: jax.Array,  # [B, D + 1] accepted nodes, from the root down
    gain: jax.Array,  # [B] number of accepted nodes, root included
  ) -> Cache:
    """Removes rejected nodes from the cache; by default keeps only the root."""
    del tree, path, gain
    return dataclasses.replace(cache, length=root + 1)

  def teacher_forced(
    self,
    params,
    tokens,  # [B, T]; padding after a row's last token has no effect
    read: jax.Array,  # [B, T, J] the target's features that the draft reads
    roots: jax.Array,  # [B, W] positions of the roots, from 1 to T - 1 - D
    D: int,
  ) -> Iterator[Level]:
    """Yields the draft's output at each level of chains along a text.

    Let token t of the text be the root of a cycle that drafts a chain. As long
    as the chain equals the text, level j + 1 is the draft's distribution of
    token t + j + 1, given the input that the draft had at t. All roots of a
    text share its pass.
    """
    raise NotImplementedError


def at_root(outputs, index, length):
  """Returns what `begin` returns.

  Args:
    outputs: Logits [B, T, V], features [B, T, E] and cache of a forward pass.
    index: [B] Where the root is among the T tokens.
    length: [B] The cache's length with the root.
  """
  logits, features, cache = outputs
  index = index[:, None, None]
  return (
    jnp.take_along_axis(logits, index, axis=1),
    jnp.take_along_axis(features, index, axis=1),
    dataclasses.replace(cache, length=length),
    None,
  )


def last_committed(committed: Committed) -> jax.Array:
  """Returns the last committed token of each row: [B, 1]."""
  last = jnp.maximum(committed.gain, 1)[:, None]
  return jnp.take_along_axis(committed.tokens, last, axis=1)
