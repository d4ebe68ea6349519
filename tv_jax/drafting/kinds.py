"""The ways of drafting; drafter.py says what each function does.

Axes as in drafter.py.
"""

from __future__ import annotations

import dataclasses
import functools

import jax
import jax.numpy as jnp
import numpy as np

from tv_jax import models
from tv_jax.drafting.drafter import Committed, Drafter, take_row
from tv_jax.drafting.in_one_pass import InOnePass
from tv_jax.models import Cache, causal_pass, compact, sharding
from tv_jax.tree import Adaptive, Tree


@dataclasses.dataclass(frozen=True)
class Independent(Drafter):
  """A language model of its own, such as a small Llama.

  It never processed the leaves, so the last accepted token may be missing from
  its cache: it takes that and the bonus token together, where the former is at
  worst a row that is rewritten with itself.
  """

  @staticmethod
  def load(draft_kind, path, target, *, dtype, split, revision) -> models.Model:
    """Loads a language model; each device holds all of it unless `split`."""
    del draft_kind
    mesh = target.mesh
    model = models.load(
      path, dtype, mesh if split else None, revision, target=target
    )
    if mesh is None or split or model.config.shares_embedding:
      return model
    params = jax.device_put(model.params, sharding.placement("", mesh))
    return dataclasses.replace(model, params=params)

  def prefill(self, params, tokens, following, features, cache: Cache):
    """Reads the tokens alone."""
    del following, features
    return causal_pass(self.module, params, (tokens,), cache)[2]

  def begin(self, params, committed: Committed, length, cache: Cache):
    """Reads the last two tokens.

    With 10 tokens committed it takes tokens 8 and 9, into slots 8 and 9; from a
    single token, that one twice.
    """
    start = jnp.maximum(length - 2, 0)
    last = jnp.maximum(committed.gain, 1)[:, None]
    older = jnp.where((length == 1)[:, None], last, last - 1)
    tokens = jnp.take_along_axis(
      committed.tokens, jnp.concatenate([older, last], axis=1), axis=1
    )
    cache = dataclasses.replace(cache, length=start)
    outputs = causal_pass(self.module, params, (tokens,), cache)
    return take_row(outputs, length - 1 - start, length)

  def extend(self, params, tokens, features, positions, seen, cache: Cache):
    """Processes the tokens alone."""
    del features
    return self.module.apply({"params": params}, tokens, positions, seen, cache)

  def commit(
    self, cache: Cache, tree: Tree | Adaptive, root, path, gain
  ) -> Cache:
    """Keeps the accepted path but its last node."""
    kept = jnp.maximum(gain - 1, 0)
    if tree.is_chain:  # it lies where it is to stay
      return dataclasses.replace(cache, length=root + kept)
    return compact(cache, root, jnp.asarray(place_of(tree))[path], kept)


@dataclasses.dataclass(frozen=True)
class OnFeatures(Drafter):
  """An EAGLE head, which reads the target's features.

  While drafting it makes do with its own; everything that was committed it is
  fed again with the target's, in D + 1 slots of which `gain` are real. An
  EAGLE-3 head tells the target's from its own by their width.
  """

  def prefill(self, params, tokens, following, features, cache: Cache):
    """Reads pairs of features and the token after."""
    del tokens
    return causal_pass(self.module, params, (following, features), cache)[2]

  def begin(self, params, committed: Committed, length, cache: Cache):
    """Reads all that is new, with the target's features."""
    del length
    rows = committed.tokens[:, 1:], committed.features
    outputs = causal_pass(self.module, params, rows, cache)
    last = jnp.maximum(committed.gain - 1, 0)
    return take_row(outputs, last, cache.length + committed.gain)

  def extend(self, params, tokens, features, positions, seen, cache: Cache):
    """Processes the tokens with their parents' features."""
    return self.module.apply(
      {"params": params}, tokens, features, positions, seen, cache
    )


# By `draft_kind`.
KINDS: dict[str, type[Drafter]] = {
  "independent": Independent,
  "eagle": OnFeatures,
  "eagle3": OnFeatures,
  "dspark": InOnePass,
}


@functools.lru_cache(maxsize=256)
def place_of(tree: Tree | Adaptive) -> np.ndarray:
  """Returns [N]: an inner node's place among the inner ones; 0 for a leaf."""
  place = np.zeros(len(tree), np.int32)
  place[tree.inner] = np.arange(len(tree.inner))
  return place
