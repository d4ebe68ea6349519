"""Runs: a config's whole grid, into a folder from which tables are made.

`records`, `metrics`, `store` and `report` read a folder without jax: what needs
it is imported when it is first asked for.
"""

import importlib
from typing import TYPE_CHECKING

if TYPE_CHECKING:
  from tv_jax.engine.programs import keep as keep_programs
  from tv_jax.runs.asking import grid, read_questions
  from tv_jax.runs.hosts import join
  from tv_jax.runs.running import load, run, unchanged
  from tv_jax.runs.settings import Run, from_config, to_dict

__all__ = [
  "Run",
  "from_config",
  "grid",
  "join",
  "keep_programs",
  "load",
  "read_questions",
  "run",
  "to_dict",
  "unchanged",
]

_PLACES = {
  "Run": "runs.settings:Run",
  "from_config": "runs.settings:from_config",
  "grid": "runs.asking:grid",
  "join": "runs.hosts:join",
  "keep_programs": "engine.programs:keep",
  "load": "runs.running:load",
  "read_questions": "runs.asking:read_questions",
  "run": "runs.running:run",
  "to_dict": "runs.settings:to_dict",
  "unchanged": "runs.running:unchanged",
}


def __getattr__(name):
  if name not in _PLACES:
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
  module, _, own = _PLACES[name].partition(":")
  return getattr(importlib.import_module(f"tv_jax.{module}"), own)
