"""The engine: from a pair and prompts to tokens, cycle by cycle.

In reading order: generate.py (prompts in, tokens out), config.py (the options),
decode.py (the loop over prompts), cycle.py (one cycle), state.py (its arrays).
"""

from tv_jax.engine.config import DecodeConfig, Options
from tv_jax.engine.generate import Cycle
from tv_jax.engine.pair import Pair
from tv_jax.engine.programs import forget_programs, keep_programs
from tv_jax.engine.results import Estimate, Generation

__all__ = [
  "Cycle",
  "DecodeConfig",
  "Estimate",
  "Generation",
  "Options",
  "Pair",
  "forget_programs",
  "keep_programs",
]
