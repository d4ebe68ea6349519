"""Loads, runs and saves language models and drafts that read features."""

from tv_jax.models.borrowed import check_vocabularies
from tv_jax.models.cache import Cache, compact
from tv_jax.models.checkpoint import Checkpoint
from tv_jax.models.config import Config
from tv_jax.models.loading import load, save
from tv_jax.models.model import Model, causal_pass

__all__ = [
  "Cache",
  "Checkpoint",
  "Config",
  "Model",
  "causal_pass",
  "check_vocabularies",
  "compact",
  "load",
  "save",
]
