"""What `load` returns: a configuration, parameters, functions that run."""

import dataclasses
from collections.abc import Callable

import jax
import jax.numpy as jnp
from jax.sharding import Mesh

from tv_jax.models import cache as caches
from tv_jax.models import mask, sharding
from tv_jax.models.cache import Cache
from tv_jax.models.config import Config


@dataclasses.dataclass(frozen=True, kw_only=True, eq=False)
class Model:
  """A language model.

  Attributes:
    config: Its shape and constants; `config.kept` says what weights are in.
    params: What `apply` takes first.
    apply: (params, tokens, positions, mask, cache) to (logits, features,
      cache); see `Decoder.__call__`. It holds no parameters, and is hashable.
    mesh: The devices that it is split over, if more than one.
    source: Where it was loaded from: a directory, or repository@commit.
  """

  config: Config
  params: dict
  apply: Callable
  mesh: Mesh | None
  source: str

  def init_cache(self, batch: int, length: int) -> Cache:
    """An empty cache of `length` slots for `batch` rows."""
    return _init_cache(self.config, self.mesh, batch, length)

  def logits(self, tokens) -> jax.Array:
    """Logits [B, T, V] of `tokens` [B, T], each seeing those before it."""
    tokens = jnp.asarray(tokens, jnp.int32)
    cache = self.init_cache(*tokens.shape)
    return _causal(self.apply, self.params, tokens, cache)


@dataclasses.dataclass(frozen=True, kw_only=True, eq=False)
class Head:
  """An EAGLE-1 head on top of a model.

  Attributes:
    config: Its shape and constants.
    params: What `apply` takes first. The embedding and unembedding in it are
      the target's own arrays.
    apply: (params, tokens, features, positions, mask, cache) to (logits,
      features, cache); see `Eagle.__call__`.
    bias: Whether the fusing product has a bias.
    mesh: The devices that it is split over, if more than one.
    source: Where it was loaded from: a directory, or repository@commit.
  """

  config: Config
  params: dict
  apply: Callable
  bias: bool
  mesh: Mesh | None
  source: str

  def init_cache(self, batch: int, length: int) -> Cache:
    """An empty cache of `length` slots for `batch` rows."""
    return _init_cache(self.config, self.mesh, batch, length)


def _init_cache(config, mesh, batch, length):
  cache = caches.empty(config, batch, length)
  if mesh is None:
    return cache
  split = sharding.placement("BGSC", mesh)
  return Cache(
    keys=sharding.put(cache.keys, split),
    values=sharding.put(cache.values, split),
    length=sharding.put(cache.length, sharding.placement("B", mesh)),
  )


def _plain(apply, params, tokens, cache):
  T = tokens.shape[1]
  positions = cache.length[:, None] + jnp.arange(T, dtype=jnp.int32)[None]
  seen = mask.causal(cache.length, T, cache.slots)
  return apply(params, tokens, positions, seen, cache)[0]


_causal = jax.jit(_plain, static_argnums=0)
