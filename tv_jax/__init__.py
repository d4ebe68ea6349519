"""tv_jax: lossless verification in speculative tree decoding, in JAX."""

import importlib
from typing import TYPE_CHECKING

from tv_jax.edge import lazy

if TYPE_CHECKING:
  from tv_jax.engine.generate import generate
  from tv_jax.engine.pair import Pair, load
  from tv_jax.engine.profile import Profile, profile
  from tv_jax.engine.programs import forget_programs
  from tv_jax.engine.results import Generation
  from tv_jax.engine.stream import stream
  from tv_jax.replay.recording import record

__version__ = "0.1.0.dev0"

__all__ = [
  "Generation",
  "Pair",
  "Profile",
  "forget_programs",
  "generate",
  "load",
  "profile",
  "record",
  "stream",
]

_named = lazy.names(
  __name__,
  {
    "Generation": "engine.results",
    "Pair": "engine.pair",
    "Profile": "engine.profile",
    "forget_programs": "engine.programs",
    "generate": "engine.generate",
    "load": "engine.pair",
    "profile": "engine.profile",
    "record": "replay.recording",
    "stream": "engine.stream",
  },
)


def __getattr__(name):
  """Imports a name, or a module of the package, when it is first asked for."""
  if name in __all__:
    return _named(name)
  try:
    return importlib.import_module(f"{__name__}.{name}")
  except ModuleNotFoundError as error:
    if error.name != f"{__name__}.{name}":
      raise
    raise AttributeError(
      f"module {__name__!r} has no attribute {name!r}"
    ) from None


def __dir__():
  return sorted([*globals(), *__all__])
