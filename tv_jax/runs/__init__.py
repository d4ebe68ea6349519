"""Runs: a config's whole grid, into a folder from which tables are made.

`records`, `metrics`, `store` and `report` read a folder without jax: what needs
it is imported when it is first asked for.
"""

from typing import TYPE_CHECKING

from tv_jax.edge import lazy

if TYPE_CHECKING:
  from tv_jax.engine.programs import keep_programs
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

__getattr__ = lazy.names(
  __name__,
  {
    "Run": "runs.settings",
    "from_config": "runs.settings",
    "grid": "runs.asking",
    "join": "runs.hosts",
    "keep_programs": "engine.programs",
    "load": "runs.running",
    "read_questions": "runs.asking",
    "run": "runs.running",
    "to_dict": "runs.settings",
    "unchanged": "runs.running",
  },
)
