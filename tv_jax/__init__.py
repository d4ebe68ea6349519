"""tv_jax: lossless verification in speculative tree decoding, in JAX."""

import importlib
from typing import TYPE_CHECKING

if TYPE_CHECKING:
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


def __getattr__(name):
  """Imports a name when it is first asked for.

  All of them stand on jax, which takes a second to import: a command that
  refuses a flag, or is interrupted at once, does without.
  """
  if name in __all__:
    for place in ("generation", "pair", "recording"):
      module = importlib.import_module(f"{__name__}.{place}")
      if hasattr(module, name):
        return getattr(module, name)
  raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
