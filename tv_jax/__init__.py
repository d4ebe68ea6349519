"""tv_jax: lossless verification in speculative tree decoding, in JAX."""

__version__ = "0.1.0.dev0"
