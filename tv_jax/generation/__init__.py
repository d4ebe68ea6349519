"""The Python API: prompts in, tokens and statistics out."""

from tv_jax.generation.profile import Profile, profile
from tv_jax.generation.results import Estimate, Generation
from tv_jax.generation.run import generate

__all__ = ["Estimate", "Generation", "Profile", "generate", "profile"]
