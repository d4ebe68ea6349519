"""Models and heads: a configuration, parameters, a function that runs."""

import dataclasses
import functools
from collections.abc import Callable

import jax
import jax.numpy as jnp
from jax.sharding import Mesh

from tv_jax.models import cache as caches
from tv_jax.models import families, mask, sharding
from tv_jax.models.cache import Cache
from tv_jax.models.config import Config


@dataclasses.dataclass(frozen=True, kw_only=True, eq=False)
class _Loaded:
  """What models and heads have in common.

  Attributes:
    config: Its shape and constants; `config.kept` says what weights are in.
    params: What `apply` takes first.
    apply: What runs it. It holds no parameters, and is hashable.
    mesh: The devices that it is split over, if more than one.
    source: Where it was loaded from: a directory, or repository@commit.
  """

  config: Config
  params: dict
  apply: Callable
  mesh: Mesh | None
  source: str

  def init_cache(self, batch: int, length: int) -> Cache:
    """Returns an empty cache of `length` slots for `batch` rows."""
    cache = caches.empty(self.config, batch, length)
    if self.mesh is None:
      return cache
    split = sharding.placement("BGSC", self.mesh)
    return Cache(
      keys=sharding.put(cache.keys, split),
      values=sharding.put(cache.values, split),
      length=sharding.put(cache.length, sharding.placement("B", self.mesh)),
    )


@dataclasses.dataclass(frozen=True, kw_only=True, eq=False)
class Model(_Loaded):
  """A language model.

  Its `apply` takes (params, tokens, positions, mask, cache) and returns
  (logits, features, cache); see `Decoder.__call__`.
  """

  def logits(self, tokens) -> jax.Array:
    """Returns logits [B, T, V] of `tokens` [B, T], each seeing those before."""
    tokens = jnp.asarray(tokens, jnp.int32)
    cache = self.init_cache(*tokens.shape)
    return _causal(self.apply, self.params, tokens, cache)

  def handing_out(self, layers: tuple[int, ...]) -> Callable:
    """Returns an `apply` whose features are what a draft reads.

    Args:
      layers: A draft's `Config.target_layers`.
    """
    if not layers:
      return self.apply
    return _apply(self.config, self.mesh, layers)


@dataclasses.dataclass(frozen=True, kw_only=True, eq=False)
class Head(_Loaded):
  """An EAGLE head on top of a model: an EAGLE-3 head has `target_layers`.

  Its `apply` takes (params, tokens, features, positions, mask, cache) and
  returns (logits, features, cache); see `Eagle.__call__`. The embedding and
  unembedding in `params` are the target's own arrays, unless an EAGLE-3 head
  has them itself.

  Attributes:
    bias: Whether an EAGLE-1 head's fusing product has a bias.
  """

  bias: bool = False


@dataclasses.dataclass(frozen=True, kw_only=True, eq=False)
class BlockDraft(_Loaded):
  """A draft of all levels in one pass, on top of a model.

  Its `apply` is that of `DSpark`. The embedding and unembedding in `params` are
  the target's own arrays.
  """


# What drafts for a model.
Draft = Model | Head | BlockDraft
# The same one each time: programs tell it by its address.
_apply = functools.lru_cache(maxsize=64)(families.apply)


@functools.partial(jax.jit, static_argnums=0)
def _causal(apply, params, tokens, cache):
  T = tokens.shape[1]
  positions = cache.length[:, None] + jnp.arange(T, dtype=jnp.int32)[None]
  seen = mask.causal(cache.length, T, cache.slots)
  return apply(params, tokens, positions, seen, cache)[0]
