"""Units as job arrays of SLURM, by sbatch alone.

A unit is an element of an array: `python -m launch.task`. SLURM starts it again
when its machine is lost or it is pre-empted; one that its time limit ends asks
for that itself. What has been done is read from the stores and never from
SLURM; SLURM is only asked what is waiting.
"""

from __future__ import annotations

import contextlib
import itertools
import json
import pprint
import shlex
import subprocess
import sys
from collections.abc import Callable, Sequence
from typing import NamedTuple

from launch import sweep as sweep_lib
from launch.sweep import Sweep
from launch.units import Pair
from tv_jax.store import files

JOBS = "jobs.jsonl"
# A unit hears of its end so many seconds before, and closes its store.
_NOTICE = 120
_PATIENCE = 10.0  # seconds, with scancel


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


def snapshot(sweep: Sweep, pairs: Sequence[Pair]) -> Sweep:
  """The sweep with its configs as they are now: a job may start in a week."""
  folder, places = sweep.folder / "configs", {}
  folder.mkdir(exist_ok=True)
  for pair in pairs:
    fields = pair.config.copy_and_resolve_references().to_dict()
    path = folder / f"{pair.config.experiment}.py"
    text = _SNAPSHOT.format(
      name=pair.name, fields=pprint.pformat(fields, sort_dicts=False)
    )
    files.write_atomic(path, text)
    places[pair.name] = str(path)
  units = [unit._replace(config=places[unit.config]) for unit in sweep.units]
  kept = sweep._replace(units=tuple(units))
  sweep_lib.write(kept)
  return kept


_SNAPSHOT = '''"""The config {name}, as it was when its sweep was submitted."""

import ml_collections

FIELDS = {fields}


def get_config():
  """All fields."""
  return ml_collections.ConfigDict(FIELDS)
'''


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
  queued = queue(sweep)
  (sweep.folder / sweep_lib.CANCELLED).unlink(missing_ok=True)
  left = [
    i for i, unit in enumerate(sweep.units) if not unit.done and i not in queued
  ]
  if queued:
    say(f"{len(queued)} units are in SLURM's queue")
  size = _max_array_size()
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
    script = _script(sweep, offset, gpus, own, asked)
    job = Job(_sbatch(sweep, script, f"units-{offset}-{gpus}"), offset)
    _note(sweep, job)
    submitted.append(job.id)
    say(f"job {job.id}: {len(own)} units")
  if render and (submitted or not queued):
    _after(sweep, render, submitted, asked, say)
  say(f"python -m launch status {sweep.workdir}")


def _after(sweep, render, submitted, asked, say) -> None:
  """The job that makes the tables, whatever became of the units."""
  lines = [_header(sweep, asked, "tables")]
  if submitted:
    lines.append(f"#SBATCH --dependency=afterany:{':'.join(submitted)}")
  lines += ["#SBATCH --open-mode=append", ""]
  lines += [f"{shlex.join(command)}" for command in render]
  job = _sbatch(sweep, "\n".join(lines) + "\n", "tables")
  _note(sweep, Job(job, -1))
  say(f"job {job}: the tables, after all others")


def _header(sweep, asked, name) -> str:
  lines = [
    "#!/bin/bash",
    f"#SBATCH --job-name={sweep.folder.name}-{name}",
    f"#SBATCH --chdir={sweep.told['folder']}",
    f"#SBATCH --output={sweep.folder}/{name}-%A_%a.out"
    if name != "tables"
    else f"#SBATCH --output={sweep.folder}/tables.out",
  ]
  if asked.time:
    lines.append(f"#SBATCH --time={asked.time}")
  if asked.partition:
    lines.append(f"#SBATCH --partition={asked.partition}")
  lines += [f"#SBATCH {option}" for option in shlex.split(asked.more)]
  return "\n".join(lines)


def _script(sweep, offset, gpus, indices, asked) -> str:
  array = _ranges(indices)
  if asked.max_parallel:
    array += f"%{asked.max_parallel}"
  lines = [
    _header(sweep, asked, "unit"),
    f"#SBATCH --array={array}",
    "#SBATCH --requeue",
    "#SBATCH --open-mode=append",
    f"#SBATCH --signal=B:TERM@{_NOTICE}",
  ]
  if gpus:
    lines.append(f"#SBATCH --gres=gpu:{gpus}")
  # In the shell's place, so that SLURM's signal reaches it.
  command = [sys.executable, "-m", "launch.task", str(sweep.folder)]
  task = f"{shlex.join(command)} $(({offset} + SLURM_ARRAY_TASK_ID))"
  return "\n".join([*lines, "", f"exec {task}", ""])


def _ranges(indices: Sequence[int]) -> str:
  """As SLURM writes them: 0-3,7."""
  parts = []
  groups = itertools.groupby(enumerate(indices), lambda one: one[1] - one[0])
  for _, group in groups:
    first, *rest = [index for _, index in group]
    parts.append(f"{first}-{rest[-1]}" if rest else f"{first}")
  return ",".join(parts)


def jobs(sweep: Sweep) -> list[Job]:
  """All that were submitted."""
  try:
    lines = (sweep.folder / JOBS).read_text().splitlines()
  except OSError:
    return []
  return [Job(**json.loads(line)) for line in lines]


def queue(sweep: Sweep) -> dict[int, str]:
  """SLURM's state of the units that are waiting, or running; by index."""
  offsets = {job.id: job.offset for job in jobs(sweep) if job.offset >= 0}
  found = {}
  for job, element, state in _queue():
    if job in offsets and element.isdigit():
      found[offsets[job] + int(element)] = state
  return found


def cancel(sweep: Sweep, say: Callable[[str], None]) -> None:
  """Takes all jobs of a sweep out of the queue."""
  (sweep.folder / sweep_lib.CANCELLED).touch()
  there = {job for job, _, _ in _queue()}
  left = [job.id for job in jobs(sweep) if job.id in there]
  if left:
    # First what waits, or it would start in the place of what ends.
    _scancel("--state=PENDING", *left)
    # To the batch shell, where a unit closes its store and ends.
    _scancel("--state=RUNNING", "--batch", "--signal=TERM", *left)
  say(f"{sweep.folder}: {len(left)} jobs are told to end")


def _scancel(*arguments: str) -> None:
  """Told at once; then it asks for a minute whether what has ended has ended.

  It fails of that, too: the queue is what counts.
  """
  with contextlib.suppress(ValueError, subprocess.TimeoutExpired):
    _command("scancel", *arguments, timeout=_PATIENCE)


def _queue() -> list[tuple[str, str, str]]:
  """(array, element, state) of each of the user's jobs."""
  out = _command("squeue", "--me", "--noheader", "--array", "-o", "%F %K %T")
  return [tuple(line.split(maxsplit=2)) for line in out.splitlines()]


def _max_array_size() -> int:
  """Elements are numbered below it."""
  for line in _command("scontrol", "show", "config").splitlines():
    name, _, value = line.partition("=")
    if name.strip() == "MaxArraySize":
      return int(value)
  return 1001  # SLURM's default


def _sbatch(sweep, script, name) -> str:
  """The job's id."""
  path = sweep.folder / f"{name}.sh"
  files.write_atomic(path, script)
  out = _command("sbatch", "--parsable", str(path))
  return out.strip().split(";")[0]  # a cluster's name may follow


def _note(sweep, job) -> None:
  with (sweep.folder / JOBS).open("a") as file:
    file.write(json.dumps(job._asdict()) + "\n")


def _command(*command: str, timeout: float | None = None) -> str:
  """What one of SLURM's commands prints.

  Raises:
    ValueError: It is not there, or refuses.
  """
  try:
    done = subprocess.run(
      command, capture_output=True, text=True, timeout=timeout
    )
  except FileNotFoundError as error:
    raise ValueError(
      f"there is no {command[0]} here: --backend=slurm is for a machine from"
      " which jobs of SLURM are submitted"
    ) from error
  if done.returncode:
    words = (done.stderr or done.stdout).strip().splitlines()
    raise ValueError(f"{command[0]}: {words[-1] if words else 'failed'}")
  return done.stdout


def state(job: str) -> str:
  """SLURM's word for an element, as 12_3; empty if it has none."""
  try:
    return _command("squeue", "--noheader", "-o", "%T", "-j", job).strip()
  except ValueError:  # it is forgotten
    return ""


def requeue(job: str) -> bool:
  """Puts a running element back into the queue; whether SLURM takes it."""
  try:
    _command("scontrol", "requeue", job)
  except ValueError:
    return False
  return True
