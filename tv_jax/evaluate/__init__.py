"""Runs: a config's whole grid, into a folder from which tables are made."""

from tv_jax.evaluate.asking import grid, questions
from tv_jax.evaluate.config import from_config
from tv_jax.evaluate.hosts import join
from tv_jax.evaluate.loading import load
from tv_jax.evaluate.running import run, unchanged
from tv_jax.evaluate.settings import Run, to_dict
from tv_jax.generation import keep_programs

__all__ = [
  "Run",
  "from_config",
  "grid",
  "join",
  "keep_programs",
  "load",
  "questions",
  "run",
  "to_dict",
  "unchanged",
]
