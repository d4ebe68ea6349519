"""What a sweep is made of: units, each one run of `tv_jax.main`.

A unit is a pair of models and a shard of an experiment's grid. Its folder says
how far it is; no list of a scheduler is asked.
"""

from __future__ import annotations

import contextlib
import hashlib
import operator
import pathlib
import shlex
import sys
from collections.abc import Sequence
from typing import NamedTuple

import ml_collections

from experiments import experiment as experiment_lib
from experiments.experiment import Experiment, Shard
from launch import tries
from tv_jax.edge import config_flag, reading
from tv_jax.runs.store import unit as unit_lib

_DEVICES = "models.devices"
_devices = operator.attrgetter(_DEVICES)
_ENDLESS = 2**53  # answers: no run has so many
_SILENT = "it said nothing"


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
    """What runs it, or continues it."""
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

    What another config or a run without a launcher has finished is started:
    the run itself knows whether that is a difference.
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
    """The last line of its log that says something."""
    try:
      text = reading.regular(self.log).read_text(errors="replace")
    except (OSError, ValueError):
      return _SILENT
    said = [line.strip() for line in text.splitlines() if line.strip()]
    return said[-1] if said else _SILENT

  @property
  def log(self) -> pathlib.Path:
    """The file of what it prints."""
    return self.folder / "log.txt"


class Pair(NamedTuple):
  """A config to expand: its name, its fields, and what was set in it."""

  name: str
  config: ml_collections.ConfigDict
  told: tuple[str, ...]


def expand(
  experiment: Experiment,
  pairs: Sequence[Pair],
  workdir: pathlib.Path,
  smoke: bool = False,
  gpus: int | None = None,
) -> dict[Unit, ml_collections.ConfigDict]:
  """Returns all units of an experiment, each with the config that it runs.

  Args:
    experiment: Which.
    pairs: The configs.
    workdir: Where the units' folders are.
    smoke: As little as shows that it works.
    gpus: Of each unit; None: as many as its config says.

  Raises:
    ValueError: Two units have one folder.
  """
  units = {}
  for pair in pairs:
    for shard in experiment_lib.shards(experiment, pair.config, smoke):
      if gpus and gpus != _devices(pair.config):
        shard = shard._replace(overrides={**shard.overrides, _DEVICES: gpus})
      unit, config = _unit(experiment.name, pair, shard, workdir, gpus)
      units.setdefault(unit.name, []).append((unit, config))
  for name, found in units.items():
    if len(found) > 1:
      raise ValueError(
        f"{name} is {len(found)} units: give configs names of their own"
      )
  return dict(found[0] for found in units.values())


def _unit(
  experiment: str,
  pair: Pair,
  shard: Shard,
  workdir: pathlib.Path,
  gpus: int | None,
) -> tuple[Unit, ml_collections.ConfigDict]:
  config = shard.of(pair.config)
  name = f"{experiment}/{config.experiment}/{shard.name}"
  # A tuple that is given twice is both: what is swept is given once.
  told = [
    flag
    for flag in pair.told
    if config_flag.field_of(flag) not in shard.overrides
  ]
  own = [f"--config.{key}={value}" for key, value in shard.overrides.items()]
  hashed = config.copy_and_resolve_references()
  if hashed.get("draft_stop") == 0:  # as before there was such a thing
    with hashed.unlocked():
      del hashed["draft_stop"]
  # The same in every process.
  data = hashed.to_json(sort_keys=True).encode()
  unit = Unit(
    name,
    pair.name,
    (*told, *own),
    workdir / name,
    hashlib.sha256(data).hexdigest()[:12],
    _devices(config) if gpus is None else gpus,
  )
  return unit, config


def left(units: Sequence[Unit]) -> list[Unit]:
  """Returns the units to start: not done, or made of what has changed since.

  Trees, rules, questions and weights may have changed. In doubt a unit is
  started: the run itself knows better.
  """
  from tv_jax import runs

  def unchanged(unit):
    with contextlib.suppress(ValueError, OSError):
      return runs.unchanged(unit.folder)
    return False

  with contextlib.redirect_stdout(sys.stderr):  # rules may print
    return [unit for unit in units if not (unit.done and unchanged(unit))]
