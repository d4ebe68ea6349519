"""Runs: decode a config's whole grid into a folder, and report on it."""

from tv_jax.engine.programs import keep_programs
from tv_jax.runs.frame import answers, frame, timings
from tv_jax.runs.questions import read_questions
from tv_jax.runs.running import load, run, unchanged
from tv_jax.runs.settings import NAMES, Run, from_config, grid, to_dict

__all__ = [
  "NAMES",
  "Run",
  "answers",
  "frame",
  "from_config",
  "grid",
  "keep_programs",
  "load",
  "read_questions",
  "run",
  "timings",
  "to_dict",
  "unchanged",
]
