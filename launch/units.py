"""What a sweep is made of: units, each one run of `tv_jax.main`.

A unit is a pair of models and a shard of an experiment's grid. Its folder says
whether it is done; no list of a scheduler is asked. Nothing here imports jax.
"""

from __future__ import annotations

import collections
import pathlib
import shlex
import sys
from collections.abc import Sequence
from typing import NamedTuple

import ml_collections

from experiments import experiment as experiment_lib
from experiments.experiment import Experiment
from tv_jax.store import unit as unit_lib


class Unit(NamedTuple):
  """A run.

  Attributes:
    name: experiment/config/shard, which is its folder below the sweep's, too.
    config: As --config takes it.
    told: What the user set in it: `--config.field=value`, as it was given.
    overrides: What the shard sets, by dotted name.
    folder: Where it is run.
  """

  name: str
  config: str
  told: tuple[str, ...]
  overrides: dict
  folder: pathlib.Path

  @property
  def command(self) -> list[str]:
    """What runs it, or goes on with it."""
    return [
      sys.executable,
      "-m",
      "tv_jax.main",
      f"--config={self.config}",
      *self.told,
      *(f"--config.{field}={value}" for field, value in self.overrides.items()),
      f"--workdir={self.folder}",
    ]

  @property
  def line(self) -> str:
    """The command for a shell."""
    return shlex.join(["python", *self.command[1:]])

  @property
  def done(self) -> bool:
    """Whether nothing is left to do."""
    return (self.folder / unit_lib.DONE).exists()

  @property
  def answers(self) -> int:
    """How many there are."""
    path = self.folder / unit_lib.ITEMS
    try:
      return path.read_bytes().count(b"\n")
    except OSError:
      return 0

  @property
  def last_words(self) -> str:
    """The last line of its log that says something."""
    try:
      lines = self.log.read_text(errors="replace").splitlines()
    except OSError:
      return "it said nothing"
    return next((line for line in reversed(lines) if line.strip()), "nothing")

  @property
  def log(self) -> pathlib.Path:
    """What it prints."""
    return self.folder / "log.txt"


class Pair(NamedTuple):
  """A config to expand: as it is called, read, and what was set in it."""

  name: str
  config: ml_collections.ConfigDict
  told: tuple[str, ...]


def expand(
  experiment: Experiment,
  pairs: Sequence[Pair],
  workdir: pathlib.Path,
  smoke: bool = False,
) -> list[Unit]:
  """All units of an experiment, of each pair.

  Raises:
    ValueError: Two units have one folder.
  """
  units = []
  for pair in pairs:
    for shard in experiment_lib.shards(experiment, pair.config, smoke):
      name = f"{experiment.name}/{pair.config.experiment}/{shard.name}"
      units.append(
        Unit(name, pair.name, pair.told, shard.overrides, workdir / name)
      )
  counted = collections.Counter(unit.name for unit in units)
  name, count = max(counted.items(), key=lambda pair: pair[1], default=("", 0))
  if count > 1:
    raise ValueError(
      f"{name} is {count} units: give configs names of their own"
    )
  return units
