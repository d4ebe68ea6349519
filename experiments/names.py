"""The experiments, in the order in which they are run and shown."""

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
  "wide",
  "as_published",
)


def check(name: str) -> None:
  """Refuses what is none of them."""
  if name not in NAMES:
    raise ValueError(f"experiment {name!r} is not one of {', '.join(NAMES)}")


def find(name: str) -> Experiment:
  """The experiment of this name."""
  check(name)
  return importlib.import_module(f"experiments.{name}").EXPERIMENT


def all_of_them() -> list[Experiment]:
  """Every one."""
  return [find(name) for name in NAMES]
