"""The engine: a pair, a plan, the cycle, one program; prompts in, tokens out.

`estimates` is read by what does without jax: what needs it is
imported when it is first asked for.
"""

from typing import TYPE_CHECKING

from tv_jax.edge import lazy

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
  from tv_jax.engine.streaming import Cycle, Speech, Streaming, stream

__all__ = [
  "Ahead",
  "Cycle",
  "Generation",
  "Options",
  "Profile",
  "Prompt",
  "Prompts",
  "Rows",
  "Settings",
  "Speech",
  "Streaming",
  "decode_all",
  "forget_programs",
  "generate",
  "keep_programs",
  "profile",
  "read",
  "resolve",
  "stream",
  "trace_of",
]

__getattr__ = lazy.names(
  __name__,
  {
    "Ahead": "engine.ahead",
    "Cycle": "engine.streaming",
    "Generation": "engine.results",
    "Options": "engine.settings",
    "Profile": "engine.staged",
    "Prompt": "engine.driver",
    "Prompts": "engine.batches",
    "Rows": "engine.driver",
    "Settings": "engine.settings",
    "Speech": "engine.streaming",
    "Streaming": "engine.streaming",
    "decode_all": "engine.generation",
    "forget_programs": "engine.programs:forget",
    "generate": "engine.generation",
    "keep_programs": "engine.programs:keep",
    "profile": "engine.staged",
    "read": "engine.generation",
    "resolve": "engine.settings",
    "stream": "engine.streaming",
    "trace_of": "engine.generation",
  },
)
