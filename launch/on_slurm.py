"""Units as job arrays of SLURM, by sbatch alone.

A unit is an element of an array: `python -m launch.task`. SLURM starts it again
when its machine is lost or it is pre-empted; a unit that reaches its time limit
asks for that itself. What is done is read from the stores, never from SLURM:
SLURM is only asked what is queued.
"""

from __future__ import annotations

import json
import pprint
import shlex
import sys
import textwrap
from collections.abc import Callable, Sequence
from typing import NamedTuple

from launch import slurm
from launch import sweep as sweep_lib
from launch import units as units_lib
from launch.sweep import Sweep
from launch.units import Pair
from tv_jax.edge import checks, disk

JOBS = "jobs.jsonl"
# A unit is told to end so many seconds before, and closes its store.
_NOTICE = 120
_JOB = checks.fields({"id": checks.text, "offset": checks.integer()})
_TABLES = -1  # the offset of a job that makes tables


class Job(NamedTuple):
  """An array that was submitted.

  Attributes:
    id: SLURM's.
    offset: Of its elements: the unit of element 0.
  """

  id: str
  offset: int


class Asked(NamedTuple):
  """What a job is to have.

  Attributes:
    time: Its limit, as SLURM writes it.
    partition: Where.
    more: Further options of sbatch.
    max_parallel: Units at once; None: no limit.
  """

  time: str | None
  partition: str | None
  more: str
  max_parallel: int | None


def with_configs(sweep: Sweep, pairs: Sequence[Pair]) -> Sweep:
  """Keeps the configs as they are now: a job may start in a week.

  Returns:
    The sweep, whose units read these.
  """
  folder, places = sweep.folder / "configs", {}
  folder.mkdir(exist_ok=True)
  for pair in pairs:
    fields = pair.config.copy_and_resolve_references().to_dict()
    path = folder / f"{pair.config.experiment}.py"
    shown = pprint.pformat(fields, sort_dicts=False)
    disk.write_atomic(path, _CONFIG.format(name=pair.name, fields=shown))
    places[pair.name] = str(path)
  units = [unit._replace(config=places[unit.config]) for unit in sweep.units]
  return sweep._replace(units=tuple(units))


_CONFIG = '''"""The config {name}, as it was when its sweep was submitted."""

import ml_collections

FIELDS = {fields}


def get_config():
  """All fields."""
  return ml_collections.ConfigDict(FIELDS)
'''


def submit(
  sweep: Sweep,
  render: Sequence[Sequence[str]],
  asked: Asked,
  say: Callable[[str], None],
) -> None:
  """Submits what is neither done nor queued, and the tables' job.

  Args:
    sweep: What to run.
    render: Commands, once all have ended.
    asked: What a job is to have.
    say: Told what happens, a line at a time.

  Raises:
    ValueError: SLURM is not there, or refuses.
  """
  if "\\" in str(sweep.workdir):  # it would leave them out
    raise ValueError(
      f"--workdir={sweep.workdir}: SLURM cannot write where there is a"
      " backslash in the path: choose another"
    )
  there = _queued(sweep)
  queued = _by_unit(there)
  (sweep.folder / sweep_lib.CANCELLED).unlink(missing_ok=True)
  ours = [i for i in range(len(sweep.units)) if i not in queued]
  left = units_lib.left([sweep.units[i] for i in ours])
  if queued:
    say(f"{len(queued)} units are in SLURM's queue")
  size = slurm.max_array_size()
  # GPUs are a job's, so the units of a job need as many.
  arrays: dict[tuple[int, int], list[int]] = {}
  for i in ours:
    if (unit := sweep.units[i]) in left:
      arrays.setdefault((unit.gpus, i - i % size), []).append(i % size)
  submitted = []
  for (gpus, offset), elements in sorted(arrays.items()):
    job = _submit_array(sweep, offset, gpus, elements, asked)
    submitted.append(job)
    say(f"job {job}: {len(elements)} units")
  if render:
    _submit_tables(sweep, render, there, submitted, asked, say)
  say(f"python -m launch status {sweep.workdir}")


def _submit_tables(sweep, render, there, submitted, asked, say) -> None:
  """Submits the job that makes the tables, whatever became of the units.

  It waits for all of the sweep's, those of an earlier submission as well; one
  that waits already is too early if there are new ones.
  """
  early = {
    job.id
    for job, _, state in there
    if job.offset == _TABLES and state == "PENDING"
  }
  if early and not submitted:
    return
  others = {job.id: None for job, _, _ in there if job.id not in early}
  options = _options(sweep, asked, "tables", "tables")
  if awaited := [*others, *submitted]:
    options.append(f"--dependency=afterany:{':'.join(awaited)}")
  lines = [shlex.join(command) for command in render]
  job = _sbatch(sweep, "tables", options, lines, _TABLES)
  if early:
    slurm.scancel("--state=PENDING", *early)
  say(f"job {job}: the tables, after all others")


def _submit_array(sweep, offset, gpus, elements, asked) -> str:
  """Submits units of one array; returns the job's id."""
  numbers = ",".join(map(str, elements))
  parallel = f"%{asked.max_parallel}" if asked.max_parallel else ""
  options = [
    *_options(sweep, asked, "unit", "unit-%A_%a"),
    f"--array={numbers}{parallel}",
    "--requeue",
    f"--signal=B:TERM@{_NOTICE}",
    *([f"--gres=gpu:{gpus}"] if gpus else []),
  ]
  # In the shell's place, so that SLURM's signal reaches it.
  command = [sys.executable, "-m", "launch.task", str(sweep.folder)]
  task = f"exec {shlex.join(command)} $(({offset} + SLURM_ARRAY_TASK_ID))"
  return _sbatch(sweep, f"units-{offset}-{gpus}", options, [task], offset)


def _options(sweep, asked, name, out) -> list[str]:
  """Returns what all jobs are given."""
  folder = str(sweep.folder).replace("%", "%%")  # SLURM reads it as a pattern
  return [
    f"--job-name={sweep.folder.name}-{name}",
    f"--chdir={sweep.told.folder}",
    f"--output={folder}/{out}.out",
    "--open-mode=append",
    *([f"--time={asked.time}"] if asked.time else []),
    *([f"--partition={asked.partition}"] if asked.partition else []),
    *shlex.split(asked.more),
  ]


def _sbatch(sweep, name, options, lines, offset) -> str:
  """Submits a script of these lines, and notes the job; returns its id.

  The options are in the command alone: SLURM has its own way to read quotes in
  a script. The script's first comment shows the command.
  """
  path = sweep.folder / f"{name}.sh"
  command = ["sbatch", "--parsable", *options, str(path)]
  told = textwrap.indent(shlex.join(command), "# ")
  disk.write_atomic(path, "\n".join(["#!/bin/bash", told, *lines, ""]))
  # A cluster's name may follow.
  job = Job(slurm.output(*command).strip().split(";")[0], offset)
  with (sweep.folder / JOBS).open("a") as file:
    file.write(json.dumps(job._asdict()) + "\n")
  return job.id


def jobs(sweep: Sweep) -> list[Job]:
  """Returns all that were submitted.

  Raises:
    ValueError: The file is damaged: which jobs are there, nobody knows.
  """
  path = sweep.folder / JOBS
  if not path.exists():
    return []
  try:
    return [Job(**line) for line in sweep_lib.read_lines(path, _JOB)]
  except ValueError as error:
    raise ValueError(f"{error}: mend the line, or remove it") from error


def queue(sweep: Sweep) -> dict[int, str]:
  """Returns SLURM's state of the units that are queued or run, by index."""
  return _by_unit(_queued(sweep))


def _by_unit(there) -> dict[int, str]:
  return {
    job.offset + int(element): state
    for job, element, state in there
    if job.offset != _TABLES and element.isdigit()
  }


def _queued(sweep) -> list[tuple[Job, str, str]]:
  """Returns (job, element, state) of each of the sweep's jobs in the queue."""
  own = {job.id: job for job in jobs(sweep)}
  return [
    (own[job], element, state)
    for job, element, state in slurm.queue()
    if job in own
  ]


def cancel(sweep: Sweep, say: Callable[[str], None]) -> None:
  """Takes all jobs of a sweep out of the queue."""
  (sweep.folder / sweep_lib.CANCELLED).touch()
  left = [*dict.fromkeys(job.id for job, _, _ in _queued(sweep))]
  if left:
    # First what waits, or it would start in the place of what ends.
    slurm.scancel("--state=PENDING", *left)
    # To the batch shell, where a unit closes its store and ends.
    slurm.scancel("--state=RUNNING", "--batch", "--signal=TERM", *left)
  say(f"{sweep.folder}: {len(left)} jobs are told to end")
