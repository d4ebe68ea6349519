"""The units of a sweep: each is a run of `tv_jax.main`.

A unit is a config and a shard of an experiment's grid, in a separate folder.
Its progress is read from the folder, not from a scheduler.
"""

from __future__ import annotations

import fcntl
import pathlib
import sys
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from experiments import experiment as experiment_lib
from experiments.experiment import Experiment
from tv_jax import runs
from tv_jax.runs import store


class Unit(NamedTuple):
  """A run.

  Attributes:
    name: experiment/config/shard, which is also its folder below the workdir.
    command: The command that runs or continues it.
    settings: What the command says.
    folder: The folder of its results.
    gpus: The number of GPUs that it needs.
  """

  name: str
  command: tuple[str, ...]
  settings: runs.Run
  folder: pathlib.Path
  gpus: int

  @property
  def log(self) -> pathlib.Path:
    """The file with its output."""
    return self.folder / "log.txt"

  @property
  def done(self) -> bool:
    """Whether it is finished, with the same config and unchanged inputs.

    A finished unit with a changed config or input is started again: the run
    then refuses to continue, and names the difference.
    """
    done = (self.folder / store.DONE).exists()
    return done and runs.unchanged(self.folder, self.settings)

  @property
  def state(self) -> str:
    """The state: done, running, stopped or waiting."""
    if (self.folder / store.DONE).exists():
      return "done"
    if _is_locked(self.folder / "lock"):
      return "running"
    return "stopped" if self.log.exists() else "waiting"

  @property
  def progress(self) -> str:
    """A line with its state, the number of answers, and the last output."""
    items, count = (self.folder / name for name in (store.ITEMS, store.COUNT))
    answers = items.read_bytes().count(b"\n") if items.exists() else 0
    expected = count.read_text().strip() if count.exists() else "?"
    line = f"{self.name}: {self.state}, {answers} of {expected} answers"
    if self.state != "stopped":
      return line
    output = self.log.read_text(errors="replace").strip() or "no output"
    return f"{line}: {output.splitlines()[-1]}"


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
  argv: Sequence[str],
  workdir: pathlib.Path,
  *,
  smoke: bool = False,
  gpus: int | None = None,
) -> Iterator[Unit]:
  """Yields an experiment's units.

  Args:
    experiment: The experiment.
    argv: The command line, with configs and their fields.
    workdir: The folder of the units' folders.
    smoke: Whether to make minimal runs that show that everything works.
    gpus: The number of GPUs for each unit; None: as the config says.
  """
  program = sys.executable, "-m", "tv_jax.main"
  for run in experiment_lib.planned(experiment, argv, smoke, gpus):
    name = f"{experiment.name}/{run.name}"
    yield Unit(
      name=name,
      command=(*program, *run.flags, f"--workdir={workdir / name}"),
      settings=run.settings,
      folder=workdir / name,
      gpus=run.settings.models.devices if gpus is None else gpus,
    )
