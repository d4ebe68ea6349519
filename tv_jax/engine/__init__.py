"""The engine: a pair, a plan, the cycle, one program; prompts in, tokens out.

`estimates` is read by what does without jax: what needs it is
imported when it is first asked for.
"""

import importlib
from typing import TYPE_CHECKING

if TYPE_CHECKING:
  from tv_jax.engine.ahead import Ahead
  from tv_jax.engine.batches import Prompts
  from tv_jax.engine.driver import Prompt, Rows
  from tv_jax.engine.generation import decode_all, generate, read, trace_of
  from tv_jax.engine.programs import forget as forget_programs
  from tv_jax.engine.programs import keep as keep_programs
  from tv_jax.engine.results import Generation
  from tv_jax.engine.settings import Options, Settings, resolve
  from tv_jax.engine.staged import Profile, profile

__all__ = [
  "Ahead",
  "Generation",
  "Options",
  "Profile",
  "Prompt",
  "Prompts",
  "Rows",
  "Settings",
  "decode_all",
  "forget_programs",
  "generate",
  "keep_programs",
  "profile",
  "read",
  "resolve",
  "trace_of",
]

_PLACES = {
  "Ahead": "ahead:Ahead",
  "Generation": "results:Generation",
  "Options": "settings:Options",
  "Profile": "staged:Profile",
  "Prompt": "driver:Prompt",
  "Prompts": "batches:Prompts",
  "Rows": "driver:Rows",
  "Settings": "settings:Settings",
  "decode_all": "generation:decode_all",
  "forget_programs": "programs:forget",
  "generate": "generation:generate",
  "keep_programs": "programs:keep",
  "profile": "staged:profile",
  "read": "generation:read",
  "resolve": "settings:resolve",
  "trace_of": "generation:trace_of",
}


def __getattr__(name):
  if name not in _PLACES:
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
  module, _, own = _PLACES[name].partition(":")
  return getattr(importlib.import_module(f"{__name__}.{module}"), own)
