"""A model: a Linen module and its parameters."""

import dataclasses
import functools
from typing import Any

import jax
import jax.numpy as jnp
from flax import linen as nn
from flax.traverse_util import flatten_dict
from jax.sharding import Mesh

from tv_jax.models import cache as caches
from tv_jax.models import mask, sharding
from tv_jax.models.cache import Cache
from tv_jax.models.config import Config
from tv_jax.models.decoder import Decoder
from tv_jax.models.layout import Path
from tv_jax.models.quantised import is_quantised


@dataclasses.dataclass(frozen=True, kw_only=True, eq=False)
class Model:
  """A language model, or a draft that reads a target's features.

  Attributes:
    module: A `Decoder`, `Eagle`, `Eagle3` or `DSpark`, called as
      `module.apply({"params": params}, ...)`. It is hashable and holds no
      arrays, so it can be a static argument of `jax.jit`.
    params: The parameters. A draft may share arrays with its target.
    source: The directory, or repository@commit, that the model comes from.
  """

  module: Any
  params: dict
  source: str

  @property
  def config(self) -> Config:
    """Returns the model's shape and constants."""
    return self.module.config

  @property
  def is_quantised(self) -> bool:
    """Whether some of its weights are quantised."""
    return any(map(is_quantised, jax.tree.leaves(self.params, is_quantised)))

  @property
  def size(self) -> int:
    """Returns the number of parameters that its checkpoint holds."""
    return sum(box.value.size for box in owned_specs(self.module).values())

  @property
  def mesh(self) -> Mesh | None:
    """Returns the mesh that splits the model, or None for one device."""
    return self.module.mesh

  def init_cache(self, batch: int, length: int) -> Cache:
    """Returns an empty cache of `length` slots for `batch` rows."""
    cache = caches.empty(self.config, batch, length)
    if self.mesh is None:
      return cache
    split = sharding.placement((None, "heads"), self.mesh)
    return Cache(
      keys=jax.device_put(cache.keys, split),
      values=jax.device_put(cache.values, split),
      length=jax.device_put(cache.length, sharding.placement((), self.mesh)),
    )

  def logits(self, tokens) -> jax.Array:
    """Returns logits [B, T, V] of `tokens` [B, T], with causal attention."""
    tokens = jnp.asarray(tokens, jnp.int32)
    cache = self.init_cache(*tokens.shape)
    return _logits(self.module, self.params, tokens, cache)


def causal_pass(module, params, rows, cache: Cache):
  """Runs a module on inputs `rows`, each [B, T, ..], with causal attention."""
  T = rows[0].shape[1]
  positions = cache.length[:, None] + jnp.arange(T, dtype=jnp.int32)[None]
  seen = mask.causal(cache.length, T, cache.slots)
  return module.apply({"params": params}, *rows, positions, seen, cache)


@functools.partial(jax.jit, static_argnums=0)
def _logits(module, params, tokens, cache):
  return causal_pass(module, params, (tokens,), cache)[0]


@functools.partial(jax.jit, static_argnums=1)
def init(key: jax.Array, module: Any) -> dict:
  """Makes random parameters, including those a draft takes from its target."""
  return dict(nn.unbox(module.init(key, *_smallest(module))["params"]))


def _smallest(module: Any) -> tuple:
  """Returns the inputs of a pass over one token, and one of a draft's block."""
  config, places = module.config, 2 if module.config.block_size else 1
  rows = [jnp.zeros([1, 1], jnp.int32)]
  if not isinstance(module, Decoder):
    width = max(1, len(config.target_layer_ids)) * config.hidden_size
    rows.append(jnp.zeros([1, 1, width], config.dtype))
  positions, seen = jnp.zeros([1, places], jnp.int32), jnp.zeros([1, 1, places])
  return *rows, positions, seen, caches.empty(config, 1, places)


@functools.lru_cache(maxsize=64)
def owned_specs(module: Any) -> dict[Path, Any]:
  """Returns the shape and axis names of each parameter, by its path.

  Parameters that a draft takes from its target are left out.
  """
  whole = module.clone(mesh=None)

  def make():
    return whole.init(jax.random.key(0), *_smallest(whole))["params"]

  boxes = flatten_dict(jax.eval_shape(make))
  return {x: y for x, y in boxes.items() if x[0] not in module.of_target}
