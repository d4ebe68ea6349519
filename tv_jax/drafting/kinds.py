"""The ways of drafting; drafter.py says what each function does.

Axes as in drafter.py.
"""

from __future__ import annotations

import dataclasses
import functools
from typing import Any, ClassVar

import jax
import jax.numpy as jnp
import numpy as np

from tv_jax import models
from tv_jax.drafting.drafter import Drafter, News
from tv_jax.drafting.in_one_pass import InOnePass
from tv_jax.models import (
  Cache,
  borrowed,
  compact,
  eagle,
  eagle3,
  families,
  mask,
  products,
  sharding,
)
from tv_jax.tree import Adaptive, Tree


@dataclasses.dataclass(frozen=True)
class Independent:
  """A language model of its own, such as a small Llama.

  It never processed the leaves, so the last accepted token may be missing from
  its cache: it takes that and the bonus token together, where the former is at
  worst a row that is rewritten with itself.
  """

  module: Any
  follows_target: ClassVar[bool] = False

  @staticmethod
  def load(path, target, *, dtype, split, revision) -> models.Model:
    """Loads a language model; each device holds all of it unless `split`."""
    mesh = target.mesh
    model = models.load(
      path,
      dtype,
      mesh if split else None,
      revision,
      turned=products.are_turned(target.params),
      target=target,
    )
    if mesh is None or split or model.config.shares_embedding:
      return model
    params = sharding.put(model.params, sharding.placement("", mesh))
    return dataclasses.replace(model, params=params)

  @staticmethod
  def read_config(directory, target, dtype) -> models.Config:
    """It has a config.json of its own."""
    config = models.read_config(directory, dtype)
    if not config.shares_embedding:
      return config
    return borrowed.fitted(config, target, directory)

  @staticmethod
  def leaves(config):
    """Returns all parameters that are not its target's."""
    return families.leaves(config) + borrowed.leaves(config)

  @property
  def stop(self) -> float:
    """Returns 0: it always goes on."""
    return 0.0

  @property
  def block(self) -> int:
    """Returns 0: it makes a pass for each level."""
    return 0

  def prefill(self, params, tokens, following, features, cache: Cache):
    """Reads T tokens of a prompt."""
    del following, features
    return _causal(self.module, params, (tokens,), cache)[2]

  def prefilled(self, length: jax.Array) -> jax.Array:
    """Returns how many of the rows of a prompt of `length` are to be kept."""
    return jnp.maximum(length - 2, 0)

  def begin(self, params, news: News, length, cache: Cache):
    """Catches up with `length` [B] committed tokens.

    With 10 tokens committed it takes tokens 8 and 9, into slots 8 and 9; from a
    single token, that one twice.
    """
    start = jnp.maximum(length - 2, 0)
    last = jnp.maximum(news.gain, 1)[:, None]
    older = jnp.where((length == 1)[:, None], last, last - 1)
    tokens = jnp.take_along_axis(
      news.tokens, jnp.concatenate([older, last], axis=1), axis=1
    )
    cache = dataclasses.replace(cache, length=start)
    found = _causal(self.module, params, (tokens,), cache)
    return _at(found, length - 1 - start, length)

  def extend(self, params, tokens, features, positions, seen, cache: Cache):
    """Processes the nodes of a level; `features` are their parents'."""
    del features
    return self.module.apply({"params": params}, tokens, positions, seen, cache)

  def confidence(self, features) -> None:
    """Returns None: it does not say."""
    del features

  def commit(
    self, cache: Cache, tree: Tree | Adaptive, root, path, gain
  ) -> Cache:
    """Keeps the accepted path but its last node."""
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

  module: Any
  follows_target: ClassVar[bool] = True

  @staticmethod
  def load(path, target, *, dtype, split, revision) -> models.Model:
    """Loads a head, in the target's dtype, on its devices."""
    del dtype, split
    return models.load_eagle(path, target, revision)

  @staticmethod
  def read_config(directory, target, dtype) -> models.Config:
    """Takes from the target's configuration what depends on it."""
    del dtype
    config, _ = models.read_eagle_config(directory)
    return borrowed.fitted(config, target, directory)

  @staticmethod
  def leaves(config):
    """Returns the head's parameters; most heads have the bias."""
    return eagle.leaves(config, bias=True) + borrowed.leaves(config)

  @property
  def stop(self) -> float:
    """Returns 0: it always goes on."""
    return 0.0

  @property
  def block(self) -> int:
    """Returns 0: it makes a pass for each level."""
    return 0

  def prefill(self, params, tokens, following, features, cache: Cache):
    """Reads pairs of a prompt."""
    del tokens
    return _causal(self.module, params, (following, features), cache)[2]

  def prefilled(self, length: jax.Array) -> jax.Array:
    """Returns how many pairs of a prompt are to be kept: all but the last."""
    return jnp.maximum(length - 2, 0)

  def begin(self, params, news: News, length, cache: Cache):
    """Catches up."""
    del length
    rows = news.tokens[:, 1:], news.features
    found = _causal(self.module, params, rows, cache)
    place = jnp.maximum(news.gain - 1, 0)
    return _at(found, place, cache.length + news.gain)

  def extend(self, params, tokens, features, positions, seen, cache: Cache):
    """Processes the nodes of a level; `features` are their parents'."""
    return self.module.apply(
      {"params": params}, tokens, features, positions, seen, cache
    )

  def confidence(self, features) -> None:
    """Returns None: it does not say."""
    del features

  def commit(
    self, cache: Cache, tree: Tree | Adaptive, root, path, gain
  ) -> Cache:
    """Drops all that was drafted."""
    del tree, path, gain
    return dataclasses.replace(cache, length=root + 1)


@dataclasses.dataclass(frozen=True)
class OnLayers(OnFeatures):
  """An EAGLE-3 head, which reads the outputs of several of its layers.

  It drafts as an EAGLE-1 head does: it tells the target's features from its
  own by their width.
  """

  @staticmethod
  def load(path, target, *, dtype, split, revision) -> models.Model:
    """Loads a head, in the target's dtype, on its devices."""
    del dtype, split
    return models.load_eagle3(path, target, revision)

  @staticmethod
  def read_config(directory, target, dtype) -> models.Config:
    """Takes from the target's configuration what depends on it."""
    del dtype
    return models.read_eagle3_config(directory, target)

  @staticmethod
  def leaves(config):
    """Returns the head's parameters."""
    return eagle3.leaves(config)


# By `draft_kind`.
KINDS: dict[str, type[Drafter]] = {
  "independent": Independent,
  "eagle": OnFeatures,
  "eagle3": OnLayers,
  "dspark": InOnePass,
}


@functools.lru_cache(maxsize=256)
def place_of(tree: Tree | Adaptive) -> np.ndarray:
  """Returns [N]: an inner node's place among the inner ones; 0 for a leaf."""
  place = np.zeros(len(tree), np.int32)
  place[tree.inner] = np.arange(len(tree.inner))
  return place


def _causal(module, params, rows, cache: Cache):
  """Processes `rows`, each [B, T, ..], each seeing those before it."""
  T = rows[0].shape[1]
  positions = cache.length[:, None] + jnp.arange(T, dtype=jnp.int32)[None]
  seen = mask.causal(cache.length, T, cache.slots)
  return module.apply({"params": params}, *rows, positions, seen, cache)


def _at(found, place, length):
  """Takes the logits and features at `place` [B], with a cache of `length`."""
  logits, features, cache = found
  place = place[:, None, None]
  return (
    jnp.take_along_axis(logits, place, axis=1),
    jnp.take_along_axis(features, place, axis=1),
    dataclasses.replace(cache, length=length),
  )
