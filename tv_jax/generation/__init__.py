"""The Python API: prompts in, tokens and statistics out."""

from tv_jax.generation.ahead import Ahead
from tv_jax.generation.batches import Prompts
from tv_jax.generation.engine import Prompt, Rows, decode
from tv_jax.generation.programs import forget as forget_programs
from tv_jax.generation.programs import keep as keep_programs
from tv_jax.generation.results import Generation
from tv_jax.generation.run import decode_batches, generate, trace_of
from tv_jax.generation.settings import Settings, resolve, with_options
from tv_jax.generation.staged import Profile, profile

__all__ = [
  "Ahead",
  "Generation",
  "Profile",
  "Prompt",
  "Prompts",
  "Rows",
  "Settings",
  "decode",
  "decode_batches",
  "forget_programs",
  "generate",
  "keep_programs",
  "profile",
  "resolve",
  "trace_of",
  "with_options",
]
