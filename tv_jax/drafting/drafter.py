"""Defines what a way of drafting does.

Axes: B batch, N nodes, D depth, V vocabulary, E embedding, T tokens of a pass,
J what a draft reads of each token: the target's E after its final norm, or E of
each of the draft's `Config.target_layers`.
"""

from __future__ import annotations

from typing import Any, ClassVar, NamedTuple, Protocol

import jax

from tv_jax.models import Cache, Config, Model
from tv_jax.models.layout import Leaf
from tv_jax.tree import Adaptive, Tree


class News(NamedTuple):
  """What a cycle committed, the token before it first.

  In a tree of depth 3, after two accepted nodes and a bonus token:
  tokens = [old root, first, second, bonus, -], gain = 3; features = those of
  [old root, first, second, -], each to be paired with the token after it.
  """

  tokens: jax.Array  # [B, D + 2] int32
  features: jax.Array  # [B, D + 1, J] the target's, of the token before each
  gain: jax.Array  # [B] int32: how many tokens are new; 0 in a finished row


class Drafter(Protocol):
  """A way of drafting: a class of its own, and a line of `kinds.KINDS`.

  The class says how its model is loaded; what it makes of that model's module
  is static in a compiled program, so it is hashable, and holds no arrays.

  A node that has no children is never processed. Rows of the cache during a
  cycle: the root in the last slot of what is committed, and behind it the other
  inner nodes in level order.

  Attributes:
    follows_target: Whether its model is always split over devices as the
      target is; if not, only where that is asked for.
    stop: Nothing is drafted below a node of which its confidence is less; 0: it
      is not asked.
    block: How many levels it drafts in one pass, for each of which that pass
      writes a row to the cache; 0: it makes a pass for each level, over nodes.
  """

  follows_target: ClassVar[bool]

  @property
  def stop(self) -> float:
    """Returns the least confidence with which it goes on below a node."""
    ...

  @property
  def block(self) -> int:
    """Returns how many levels it drafts in one pass, or 0."""
    ...

  def __init__(self, module: Any):
    """Takes the model's module."""
    ...

  @staticmethod
  def load(
    path, target: Model, *, dtype, split: bool, revision: str | None
  ) -> Model:
    """Loads its model.

    Args:
      path: A directory or a hub repository.
      target: The model that it is to draft for.
      dtype: As of `models.load`.
      split: Whether to split it over the target's devices.
      revision: Of a repository: a commit.

    Returns:
      The model; anything with a `Model`'s attributes but `logits`.
    """
    ...

  @staticmethod
  def read_config(directory, target: Config, dtype) -> Config:
    """Returns the model's configuration, as `load` would."""
    ...

  @staticmethod
  def leaves(config: Config) -> list[Leaf]:
    """Returns the parameters that are not the target's."""
    ...

  def prefill(
    self,
    params,
    tokens: jax.Array,
    following: jax.Array,
    features: jax.Array,
    cache: Cache,
  ) -> Cache:
    """Reads T tokens of a prompt.

    Args:
      params: The model's.
      tokens: [B, T].
      following: [B, T] the token after each.
      features: [B, T, J] of each, by the target.
      cache: In which the tokens before these are.

    Returns:
      The cache.
    """
    ...

  def prefilled(self, length: jax.Array) -> jax.Array:
    """Returns how many rows of a prompt of `length` are to be kept."""
    ...

  def begin(
    self, params, news: News, length: jax.Array, cache: Cache
  ) -> tuple[jax.Array, jax.Array, Cache]:
    """Catches up with `length` [B] committed tokens.

    Returns:
      The logits [B, 1, V] and features [B, 1, E] of the root, and the cache, in
      whose last slot the root is.
    """
    ...

  def extend(
    self,
    params,
    tokens: jax.Array,
    features: jax.Array,
    positions: jax.Array,
    seen: jax.Array,
    cache: Cache,
  ) -> tuple[jax.Array, jax.Array, Cache]:
    """Processes the nodes of a level.

    Args:
      params: The model's.
      tokens: [B, T].
      features: [B, T, E] its own, of their parents.
      positions: [B, T].
      seen: [B, T, S] the mask.
      cache: The draft's.

    Returns:
      Their logits [B, T, V] and features [B, T, E], and the cache.
    """
    ...

  def confidence(self, features: jax.Array) -> jax.Array | None:
    """Says how sure it is that a next token will be accepted.

    It depends on this node's token and those above alone, so what is drafted
    below may depend on it.

    Args:
      features: [B, T, ..] its own, of these nodes.

    Returns:
      [B, T] float32; None: it does not say.
    """
    ...

  def commit(
    self,
    cache: Cache,
    tree: Tree | Adaptive,
    root: jax.Array,
    path: jax.Array,
    gain,
  ) -> Cache:
    """Forgets what was rejected.

    Args:
      cache: With inner node i of the tree in slot root + i.
      tree: The tree.
      root: [B] the slot of the root.
      path: [B, D + 1] the accepted nodes, from the root down.
      gain: [B] how many of them are accepted.

    Returns:
      The cache.
    """
    ...
