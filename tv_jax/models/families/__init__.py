"""Kinds of models, by `model_type`: a file and a line of `FAMILIES` each."""

import functools

import jax
import jax.numpy as jnp
from jax.sharding import Mesh

from tv_jax.edge.reading import brief
from tv_jax.models import cache as caches
from tv_jax.models import config as configs
from tv_jax.models.config import Config
from tv_jax.models.decoder import Decoder
from tv_jax.models.families import llama, qwen2, qwen3
from tv_jax.models.layout import Leaf

FAMILIES = {
  "llama": llama.FAMILY,
  "qwen2": qwen2.FAMILY,
  "qwen3": qwen3.FAMILY,
}


def from_dict(
  raw: dict, where: str, draft: configs.DraftFormat | None = None
) -> Config:
  """Reads the contents of any family's config.json; see config.py."""
  kind = raw.get("model_type")
  if not isinstance(kind, str) or kind not in FAMILIES:
    raise ValueError(
      f"{where}: model_type={brief(kind)} is not supported, only"
      f" {', '.join(map(repr, FAMILIES))}"
    )
  return configs.from_dict(raw, where, FAMILIES[kind], draft)


def to_dict(config: Config) -> dict:
  """Returns a config.json's contents; see config.py."""
  return configs.to_dict(config, FAMILIES[config.model_type])


def leaves(config: Config) -> list[Leaf]:
  """Returns the parameters, and which tensors of a checkpoint they are."""
  return FAMILIES[config.model_type].leaves(config)


def module(config: Config, mesh: Mesh | None = None) -> Decoder:
  """Returns what runs the model."""
  return FAMILIES[config.model_type].module(config, mesh)


@functools.partial(jax.jit, static_argnames="config")
def init(key: jax.Array, config: Config) -> dict:
  """Makes random parameters."""
  one = jnp.zeros([1, 1], jnp.int32)
  cache = caches.empty(config, 1, 1)
  mask = jnp.zeros([1, 1, 1])
  return dict(module(config).init(key, one, one, mask, cache)["params"])
