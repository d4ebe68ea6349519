"""The engine: a pair, a plan, the cycle, one program; prompts in, tokens out.

`estimates` and `extents` are read by what does without jax: what needs it is
imported when it is first asked for.
"""

import importlib
from typing import TYPE_CHECKING

if TYPE_CHECKING:
  from tv_jax.engine.ahead import Ahead
  from tv_jax.engine.batches import Prompts
  from tv_jax.engine.driver import Prompt, Rows, decode
  from tv_jax.engine.programs import forget as forget_programs
  from tv_jax.engine.programs import keep as keep_programs
  from tv_jax.engine.results import Generation
  from tv_jax.engine.run import decode_batches, generate, trace_of
  from tv_jax.engine.settings import Settings, resolve, with_options
  from tv_jax.engine.staged import Profile, profile

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

_PLACES = {
  "Ahead": "ahead:Ahead",
  "Generation": "results:Generation",
  "Profile": "staged:Profile",
  "Prompt": "driver:Prompt",
  "Prompts": "batches:Prompts",
  "Rows": "driver:Rows",
  "Settings": "settings:Settings",
  "decode": "driver:decode",
  "decode_batches": "run:decode_batches",
  "forget_programs": "programs:forget",
  "generate": "run:generate",
  "keep_programs": "programs:keep",
  "profile": "staged:profile",
  "resolve": "settings:resolve",
  "trace_of": "run:trace_of",
  "with_options": "settings:with_options",
}


def __getattr__(name):
  if name not in _PLACES:
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
  module, _, own = _PLACES[name].partition(":")
  return getattr(importlib.import_module(f"{__name__}.{module}"), own)
