"""The engine: from a pair and prompts to tokens, cycle by cycle."""

from tv_jax.engine.config import DecodeConfig
from tv_jax.engine.generate import Cycle
from tv_jax.engine.pair import Pair
from tv_jax.engine.programs import forget_programs, keep_programs
from tv_jax.engine.results import Estimate, Generation

__all__ = [
  "Cycle",
  "DecodeConfig",
  "Estimate",
  "Generation",
  "Pair",
  "forget_programs",
  "keep_programs",
]
