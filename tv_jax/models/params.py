"""A module's parameters: their shapes, and random ones."""

import functools
import math
from typing import Any

import jax
from flax import linen as nn
from flax.traverse_util import flatten_dict

from tv_jax.models.layout import Path


@functools.partial(jax.jit, static_argnums=1)
def init(key: jax.Array, module: Any) -> dict:
  """Makes random parameters, also those that a draft has of its target."""
  return dict(nn.unbox(module.init(key, *module.example())["params"]))


@functools.lru_cache(maxsize=64)
def shapes(module: Any) -> dict[Path, Any]:
  """Returns each parameter's shape and the names of its axes, by its path."""
  whole = module.clone(mesh=None)

  def make():
    return whole.init(jax.random.key(0), *whole.example())["params"]

  return dict(flatten_dict(jax.eval_shape(make)))


def stored(module: Any) -> dict[Path, Any]:
  """Returns `shapes`, but for those that are its target's."""
  boxes = shapes(module).items()
  return {path: box for path, box in boxes if path[0] not in module.of_target}


def size(module: Any) -> int:
  """Returns the bytes of the parameters that are not its target's."""
  boxes = [box.value for box in stored(module).values()]
  return sum(math.prod(x.shape) * x.dtype.itemsize for x in boxes)
