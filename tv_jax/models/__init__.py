"""Language models and EAGLE heads: load, run, save."""

from tv_jax.models.cache import Cache, compact
from tv_jax.models.config import Config
from tv_jax.models.loading import (
  check_vocabularies,
  load,
  load_eagle,
  load_eagle3,
  read_config,
  read_eagle3_config,
  read_eagle_config,
  save,
)
from tv_jax.models.model import Head, Model

__all__ = [
  "Cache",
  "Config",
  "Head",
  "Model",
  "check_vocabularies",
  "compact",
  "load",
  "load_eagle",
  "load_eagle3",
  "read_config",
  "read_eagle3_config",
  "read_eagle_config",
  "save",
]
