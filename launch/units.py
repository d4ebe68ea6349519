"""What a sweep is made of: units, each one run of `tv_jax.main`.

A unit is one config and one shard of an experiment's grid, in a folder of its
own. The folder says how far it is; no scheduler is asked.
"""

from __future__ import annotations

import fcntl
import json
import pathlib
import shlex
import sys
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import ml_collections

from experiments import experiment as experiment_lib
from experiments.experiment import Experiment
from tv_jax import runs
from tv_jax.edge import config_flag
from tv_jax.runs import store

DEVICES = "models.devices"


class Unit(NamedTuple):
  """A run.

  Attributes:
    name: experiment/config/shard, which is also its folder below the workdir.
    command: What runs it, or continues it.
    config: All fields that the command gives it.
    folder: Where it runs.
    gpus: How many it needs.
  """

  name: str
  command: tuple[str, ...]
  config: ml_collections.ConfigDict
  folder: pathlib.Path
  gpus: int

  @property
  def line(self) -> str:
    """The command for a shell."""
    return shlex.join(["python", *self.command[1:]])

  @property
  def log(self) -> pathlib.Path:
    """The file of what it prints."""
    return self.folder / "log.txt"

  @property
  def done(self) -> bool:
    """Whether it is finished, with this config and inputs as they are now.

    If only the config or an input differs it is started again: the run itself
    refuses to go on, and names the difference.
    """
    if not (self.folder / store.DONE).exists():
      return False
    kept = json.loads((self.folder / store.CONFIG).read_text())
    now = json.loads(json.dumps(runs.to_dict(runs.from_config(self.config))))
    return kept == now and runs.unchanged(self.folder)

  @property
  def state(self) -> str:
    """One of done, running, stopped, waiting."""
    if (self.folder / store.DONE).exists():
      return "done"
    if _is_locked(self.folder / "lock"):
      return "running"
    return "stopped" if self.log.exists() else "waiting"

  @property
  def progress(self) -> str:
    """A line: its state, how many answers there are, and why it stopped."""
    items, count = (self.folder / name for name in (store.ITEMS, store.COUNT))
    answers = items.read_bytes().count(b"\n") if items.exists() else 0
    expected = count.read_text().strip() if count.exists() else "?"
    last = f": {self.last_words}" if self.state == "stopped" else ""
    return f"{self.name}: {self.state}, {answers} of {expected} answers{last}"

  @property
  def last_words(self) -> str:
    """The last line of its log."""
    lines = self.log.read_text(errors="replace").split("\n")
    return next((line for line in reversed(lines) if line.strip()), "no output")


def _is_locked(path: pathlib.Path) -> bool:
  """Returns whether a run holds a folder's lock."""
  if not path.exists():
    return False
  with path.open() as file:
    try:
      fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
      return True
  return False


def expand(
  experiment: Experiment,
  name: str,
  config: Any,  # its fields are of any type
  argv: Sequence[str],
  workdir: pathlib.Path,
  *,
  smoke: bool = False,
  gpus: int | None = None,
) -> Iterator[Unit]:
  """Yields an experiment's units of one config.

  Args:
    experiment: Which.
    name: The config, as --config takes it.
    config: Its fields.
    argv: The command line, whose `--config.field=value` each unit has too.
    workdir: Where the units' folders are.
    smoke: As little as shows that it works.
    gpus: Of each unit; None: as many as its config says.
  """
  for shard in experiment_lib.shards(experiment, config, smoke):
    overrides = dict(shard.overrides)
    if gpus and gpus != config.models.devices:
      overrides[DEVICES] = gpus
    # A tuple that is given twice would be both: what is swept is given once.
    flags = [
      flag for field, flag in config_flag.fields(argv) if field not in overrides
    ]
    flags += [f"--config.{key}={value}" for key, value in overrides.items()]
    unit_name = f"{experiment.name}/{config.experiment}/{shard.name}"
    folder = workdir / unit_name
    run = (sys.executable, "-m", "tv_jax.main", f"--config={name}")
    yield Unit(
      name=unit_name,
      command=(*run, *flags, f"--workdir={folder}"),
      config=shard._replace(overrides=overrides).of(config),
      folder=folder,
      gpus=config.models.devices if gpus is None else gpus,
    )
