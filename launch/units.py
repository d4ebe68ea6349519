"""What a sweep is made of: units, each one run of `tv_jax.main`.

A unit is a pair of models and a shard of an experiment's grid. Its folder says
how far it is; no list of a scheduler is asked. Nothing here imports jax.
"""

from __future__ import annotations

import collections
import hashlib
import pathlib
import shlex
import sys
from collections.abc import Iterator, Sequence
from typing import NamedTuple

import ml_collections

from experiments import experiment as experiment_lib
from experiments.experiment import Experiment, Shard
from launch import tries
from tv_jax.edge import config_flag, reading
from tv_jax.runs.store import unit as unit_lib

_DEVICES = "models.devices"
_ENDLESS = 2**53  # answers: no run has so many


class Unit(NamedTuple):
  """A run.

  Attributes:
    name: experiment/config/shard, which is its folder below the sweep's, too.
    config: As --config takes it.
    flags: What is set in it: `--config.field=value`.
    folder: Where it is run.
    id: Of its config, with all that is set in it.
    gpus: That it needs.
  """

  name: str
  config: str
  flags: tuple[str, ...]
  folder: pathlib.Path
  id: str = ""
  gpus: int = 1

  @property
  def command(self) -> list[str]:
    """What runs it, or goes on with it."""
    return [
      sys.executable,
      "-m",
      "tv_jax.main",
      f"--config={self.config}",
      *self.flags,
      f"--workdir={self.folder}",
    ]

  @property
  def line(self) -> str:
    """The command for a shell."""
    return shlex.join(["python", *self.command[1:]])

  @property
  def finished(self) -> bool:
    """Whether its store says so."""
    return (self.folder / unit_lib.DONE).exists()

  @property
  def done(self) -> bool:
    """Whether this very command has finished it, with its report.

    What was finished with another config, or by something else than a launcher,
    is started: the run itself knows whether that is a difference. `left` has
    what read something that has changed since.
    """
    if not self.finished or self.expected not in (None, self.answers):
      return False
    last = tries.last(self.folder)
    return last is not None and last.id == self.id and last.status == 0

  @property
  def answers(self) -> int:
    """How many there are."""
    try:
      path = reading.regular(self.folder / unit_lib.ITEMS)
      return path.read_bytes().count(b"\n")
    except (OSError, ValueError):
      return 0

  @property
  def expected(self) -> int | None:
    """How many there will be; None as long as it has not said so."""
    try:
      count = int(reading.text(self.folder / unit_lib.COUNT))
    except ValueError:
      return None
    return count if 0 < count < _ENDLESS else None

  @property
  def last_words(self) -> str:
    """The last lines of its log that say something."""
    try:
      lines = reading.regular(self.log).read_text(errors="replace").splitlines()
    except (OSError, ValueError):
      return "it said nothing"
    said = [line.strip() for line in lines if line.strip()]
    return said[-1] if said else "it said nothing"

  @property
  def log(self) -> pathlib.Path:
    """What it prints."""
    return self.folder / "log.txt"


class Pair(NamedTuple):
  """A config to expand: as it is called, read, and what was set in it."""

  name: str
  config: ml_collections.ConfigDict
  told: tuple[str, ...]


class Run(NamedTuple):
  """What a unit is to run: a shard of a pair, and the config that it makes."""

  pair: Pair
  shard: Shard
  config: ml_collections.ConfigDict


def runs(
  experiment: Experiment,
  pairs: Sequence[Pair],
  smoke: bool = False,
  gpus: int | None = None,
) -> Iterator[Run]:
  """What the units of an experiment are to run; arguments as of `expand`."""
  for pair in pairs:
    for shard in experiment_lib.shards(experiment, pair.config, smoke):
      if gpus and gpus != pair.config.models.devices:
        shard = shard._replace(overrides={**shard.overrides, _DEVICES: gpus})
      yield Run(pair, shard, shard.of(pair.config))


def expand(
  experiment: Experiment,
  pairs: Sequence[Pair],
  workdir: pathlib.Path,
  smoke: bool = False,
  gpus: int | None = None,
) -> list[Unit]:
  """All units of an experiment, of each pair.

  Args:
    experiment: Which.
    pairs: The configs.
    workdir: Where the units' folders are.
    smoke: As little as shows that it works.
    gpus: Of each unit; None: as many as its config says.

  Raises:
    ValueError: Two units have one folder.
  """
  units = []
  for pair, shard, config in runs(experiment, pairs, smoke, gpus):
    name = f"{experiment.name}/{config.experiment}/{shard.name}"
    # A tuple that is given twice is both: what is swept is given once.
    told = [
      flag
      for flag in pair.told
      if config_flag.field_of(flag) not in shard.overrides
    ]
    own = [f"--config.{key}={value}" for key, value in shard.overrides.items()]
    unit = Unit(
      name,
      pair.name,
      (*told, *own),
      workdir / name,
      _id(config),
      config.models.devices if gpus is None else gpus,
    )
    units.append(unit)
  counted = collections.Counter(unit.name for unit in units)
  name, count = max(counted.items(), key=lambda pair: pair[1], default=("", 0))
  if count > 1:
    raise ValueError(
      f"{name} is {count} units: give configs names of their own"
    )
  return units


def _id(config) -> str:
  """The same in every process."""
  data = config.to_json(sort_keys=True).encode()
  return hashlib.sha256(data).hexdigest()[:12]
