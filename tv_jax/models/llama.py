"""The names that train/ and audit/ ask for here; families/ has the models."""

from tv_jax.models.decoder import Decoder as Llama
from tv_jax.models.families import init

__all__ = ["Llama", "init"]
