"""tv_jax: lossless verification in speculative tree decoding, in JAX."""

from tv_jax import (
  certify,
  distill,
  drafting,
  models,
  proposals,
  replay,
  runs,
  tree,
  tune,
  verifiers,
)
from tv_jax.engine.generate import generate, stream
from tv_jax.engine.pair import Pair, load
from tv_jax.engine.programs import forget_programs
from tv_jax.engine.results import Generation
from tv_jax.replay.recording import record

__version__ = "0.1.0.dev0"

__all__ = [
  "Generation",
  "Pair",
  "certify",
  "distill",
  "drafting",
  "forget_programs",
  "generate",
  "load",
  "models",
  "proposals",
  "record",
  "replay",
  "runs",
  "stream",
  "tree",
  "tune",
  "verifiers",
]
