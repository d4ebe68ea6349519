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
from tv_jax.models.loading_dspark import load_dspark, read_dspark_config
from tv_jax.models.model import Model

__all__ = [
  "Cache",
  "Config",
  "Model",
  "check_vocabularies",
  "compact",
  "load",
  "load_dspark",
  "load_eagle",
  "load_eagle3",
  "read_config",
  "read_dspark_config",
  "read_eagle3_config",
  "read_eagle_config",
  "save",
]
