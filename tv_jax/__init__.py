"""tv_jax: lossless verification in speculative tree decoding, in JAX."""

from tv_jax.generation import Generation, Profile, generate, profile
from tv_jax.pair import Pair, load
from tv_jax.recording import record

__version__ = "0.1.0.dev0"

__all__ = [
  "Generation",
  "Pair",
  "Profile",
  "generate",
  "load",
  "profile",
  "record",
]
