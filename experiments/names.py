"""The experiments, in the order in which they are shown."""

from __future__ import annotations

import importlib

from experiments.experiment import Experiment

NAMES = (
  "worked_example",
  "main_table",
  "temperature",
  "depth",
  "statistics",
  "losslessness",
  "quality",
  "frontier",
  "drafts",
)


def find(name: str) -> Experiment:
  """Returns the experiment of this name."""
  if name not in NAMES:
    raise ValueError(f"experiment {name!r} is not one of {', '.join(NAMES)}")
  return importlib.import_module(f"experiments.{name}").EXPERIMENT


def all_of_them() -> list[Experiment]:
  """Returns every experiment."""
  return [find(name) for name in NAMES]
