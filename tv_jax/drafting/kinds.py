"""Drafters with one pass per level, and the kinds of drafts.

drafter.py describes the functions and the axes.
"""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Callable, Iterator
from typing import Any

import jax
import jax.numpy as jnp
from jax.sharding import Mesh

from tv_jax.drafting import passes
from tv_jax.drafting.drafter import Committed, Drafter, at_root
from tv_jax.drafting.in_one_pass import InOnePass
from tv_jax.drafting.passes import Level
from tv_jax.io.errors import UserError
from tv_jax.io.reading import listed
from tv_jax.models import (
  Cache,
  Checkpoint,
  Model,
  causal_pass,
  compact,
  decoder,
  dspark,
  eagle,
  eagle3,
  loading,
)
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


@dataclasses.dataclass(frozen=True)
class DraftKind:
  """A kind of draft.

  Attributes:
    module: The class of its Linen modules, whose `format` is of its
      checkpoints.
    drafter: The draft's functions in a cycle.
    levels: Yields its outputs along a text; see `teacher_forced`.
  """

  module: Any
  drafter: type[Drafter]
  levels: Callable[..., Iterator[Level]]


KINDS = {
  "independent": DraftKind(decoder.Decoder, Independent, passes.independent),
  "eagle": DraftKind(eagle.Eagle, OnFeatures, passes.on_features),
  "eagle3": DraftKind(eagle3.Eagle3, OnFeatures, passes.on_features),
  "dspark": DraftKind(dspark.DSpark, InOnePass, passes.in_one_pass),
}


def kind_of(module) -> str:
  """Returns the name in `KINDS` of a draft's module."""
  return next(x for x, y in KINDS.items() if type(module) is y.module)


def teacher_forced(
  module, params, tokens, read, roots: jax.Array, D: int
) -> Iterator[Level]:
  """Yields a draft's output at each level of the chains below the roots.

  Args:
    module: The draft's module.
    params: The draft's parameters.
    tokens: [B, T] token ids; padding after a row's last token has no effect.
    read: [B, T, J] the target's features that the draft reads.
    roots: [B, W] positions of the roots, from 1 to T - 1 - D.
    D: Number of levels.
  """
  kind = KINDS[kind_of(module)]
  return kind.levels(module, params, tokens, read, roots, D)


def recognise(checkpoint: Checkpoint) -> str:
  """Returns the name in `KINDS` of the draft in a checkpoint.

  Raises:
    ValueError: No kind fits, or several; names the tensors that decided.
  """
  names = checkpoint.tensors
  formats = {name: kind.module.format for name, kind in KINDS.items()}
  fits = {
    (name, x.signature): x.fits(names)
    for name, form in formats.items()
    for x in form.layouts.values()
  }
  found = [sign for sign in fits if fits[sign]]
  if len({name for name, _ in found}) == 1:
    return found[0][0]
  signs = ", ".join(
    f"{signature} ({formats[name].title})" for name, signature in found or fits
  )
  if found:
    raise UserError(
      f"{checkpoint.source} could be several kinds of model, because it has"
      f" tensors like {signs}"
    )
  raise UserError(
    f"{checkpoint.source} is neither a language model nor a draft: it has no"
    f" tensor like {signs}, but {listed(sorted(names)) or 'none at all'}"
  )


def load(
  place: str | os.PathLike | Checkpoint,
  target: Model,
  dtype=None,
  mesh: Mesh | None = None,
  *,
  weights: str = loading.STORED,
) -> Model:
  """Loads a draft of any kind; see `models.load`.

  Args:
    place: The draft's checkpoint.
    target: The model that it drafts for. A draft that uses the target's
      embedding has its dtype and devices.
    dtype: The dtype of other drafts; by default as stored.
    mesh: The devices to split other drafts over.
    weights: As for `models.load`.
  """
  checkpoint = Checkpoint.open(place)
  kind = KINDS[recognise(checkpoint)].module
  return loading.load_as(kind, checkpoint, target, dtype, mesh, weights)
