"""Units as job arrays of SLURM, by sbatch alone.

A unit is an element of an array: `python -m launch.task`. SLURM starts it again
when its machine is lost or it is pre-empted; one that its time limit ends asks
for that itself. What has been done is read from the stores and never from
SLURM; SLURM is only asked what is waiting.
"""

from __future__ import annotations

import itertools
import json
import shlex
import sys
import textwrap
from collections.abc import Callable, Sequence
from typing import NamedTuple

from launch import fields, slurm
from launch import left as left_lib
from launch import sweep as sweep_lib
from launch.sweep import Sweep
from tv_jax.edge import disk as files

JOBS = "jobs.jsonl"
# A unit hears of its end so many seconds before, and closes its store.
_NOTICE = 120
_JOB = {"id": str, "offset": int}


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


def submit(
  sweep: Sweep, render: Sequence[Sequence[str]], asked: Asked, say
) -> None:
  """Submits what is not done and not waiting already, and the tables' job.

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
  there = _own(sweep)
  queued = _units(there)
  (sweep.folder / sweep_lib.CANCELLED).unlink(missing_ok=True)
  ours = [i for i in range(len(sweep.units)) if i not in queued]
  open_ = left_lib.of([sweep.units[i] for i in ours])
  left = [i for i in ours if sweep.units[i] in open_]
  if queued:
    say(f"{len(queued)} units are in SLURM's queue")
  size = slurm.max_array_size()
  submitted = []
  # GPUs are a job's, so the units of a job need as many.
  for gpus, offset in sorted(
    {(sweep.units[i].gpus, i - i % size) for i in left}
  ):
    own = [
      i - offset
      for i in left
      if sweep.units[i].gpus == gpus and i - i % size == offset
    ]
    job = _array(sweep, offset, gpus, own, asked)
    submitted.append(job)
    say(f"job {job}: {len(own)} units")
  if render:
    _after(sweep, render, there, submitted, asked, say)
  say(f"python -m launch status {sweep.workdir}")


def _after(sweep, render, there, submitted, asked, say) -> None:
  """The job that makes the tables, whatever became of the units.

  It waits for all of the sweep's, those of an earlier submission as well; one
  that waits already is too early if there are new ones.
  """
  early = {
    job.id for job, _, state in there if job.offset < 0 and state == "PENDING"
  }
  if early and not submitted:
    return
  others = {job.id: None for job, _, _ in there if job.id not in early}
  options = _options(sweep, asked, "tables", "tables")
  if awaited := [*others, *submitted]:
    options.append(f"--dependency=afterany:{':'.join(awaited)}")
  job = _sbatch(sweep, "tables", options, map(shlex.join, render))
  _note(sweep, Job(job, -1))
  if early:
    slurm.scancel("--state=PENDING", *early)
  say(f"job {job}: the tables, after all others")


def _array(sweep, offset, gpus, indices, asked) -> str:
  """Submits units of one array; the job's id."""
  parallel = f"%{asked.max_parallel}" if asked.max_parallel else ""
  options = [
    *_options(sweep, asked, "unit", "unit-%A_%a"),
    f"--array={_ranges(indices)}{parallel}",
    "--requeue",
    f"--signal=B:TERM@{_NOTICE}",
    *([f"--gres=gpu:{gpus}"] if gpus else []),
  ]
  # In the shell's place, so that SLURM's signal reaches it.
  command = [sys.executable, "-m", "launch.task", str(sweep.folder)]
  task = f"exec {shlex.join(command)} $(({offset} + SLURM_ARRAY_TASK_ID))"
  job = _sbatch(sweep, f"units-{offset}-{gpus}", options, [task])
  _note(sweep, Job(job, offset))
  return job


def _options(sweep, asked, name, out) -> list[str]:
  """What all jobs are given."""
  folder = str(sweep.folder).replace("%", "%%")  # SLURM reads it as a pattern
  return [
    f"--job-name={sweep.folder.name}-{name}",
    f"--chdir={sweep.told['folder']}",
    f"--output={folder}/{out}.out",
    "--open-mode=append",
    *([f"--time={asked.time}"] if asked.time else []),
    *([f"--partition={asked.partition}"] if asked.partition else []),
    *shlex.split(asked.more),
  ]


def _ranges(indices: Sequence[int]) -> str:
  """As SLURM writes them: 0-3,7."""
  parts = []
  groups = itertools.groupby(enumerate(indices), lambda one: one[1] - one[0])
  for _, group in groups:
    first, *rest = [index for _, index in group]
    parts.append(f"{first}-{rest[-1]}" if rest else f"{first}")
  return ",".join(parts)


def jobs(sweep: Sweep) -> list[Job]:
  """All that were submitted.

  Raises:
    ValueError: The file is damaged: which jobs are there, nobody knows.
  """
  path = sweep.folder / JOBS
  if not path.exists():
    return []
  try:
    return [
      Job(one["id"], one["offset"]) for one in fields.of_lines(path, _JOB)
    ]
  except ValueError as error:
    raise ValueError(f"{error}: mend the line, or remove it") from error


def queue(sweep: Sweep) -> dict[int, str]:
  """SLURM's state of the units that are waiting, or running; by index."""
  return _units(_own(sweep))


def _units(there) -> dict[int, str]:
  return {
    job.offset + int(element): state
    for job, element, state in there
    if job.offset >= 0 and element.isdigit()
  }


def _own(sweep) -> list[tuple[Job, str, str]]:
  """(job, element, state) of each of the sweep's jobs that SLURM has."""
  own = {job.id: job for job in jobs(sweep)}
  return [
    (own[job], element, state)
    for job, element, state in slurm.queue()
    if job in own
  ]


def cancel(sweep: Sweep, say: Callable[[str], None]) -> None:
  """Takes all jobs of a sweep out of the queue."""
  (sweep.folder / sweep_lib.CANCELLED).touch()
  left = [*dict.fromkeys(job.id for job, _, _ in _own(sweep))]
  if left:
    # First what waits, or it would start in the place of what ends.
    slurm.scancel("--state=PENDING", *left)
    # To the batch shell, where a unit closes its store and ends.
    slurm.scancel("--state=RUNNING", "--batch", "--signal=TERM", *left)
  say(f"{sweep.folder}: {len(left)} jobs are told to end")


def _sbatch(sweep, name, options, lines) -> str:
  """Submits a script of these lines, which says how; the job's id.

  Options are no lines of it: SLURM has its own way to read quotes there.
  """
  path = sweep.folder / f"{name}.sh"
  command = ["sbatch", "--parsable", *options, str(path)]
  told = textwrap.indent(shlex.join(command), "# ")
  files.write_atomic(path, "\n".join(["#!/bin/bash", told, *lines, ""]))
  out = slurm.output(*command)
  return out.strip().split(";")[0]  # a cluster's name may follow


def _note(sweep, job) -> None:
  with (sweep.folder / JOBS).open("a") as file:
    file.write(json.dumps(job._asdict()) + "\n")
