"""SLURM's own commands, and what they answer."""

from __future__ import annotations

import contextlib
import subprocess

_PATIENCE = 10.0  # seconds, with scancel


def output(*command: str, timeout: float | None = None) -> str:
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
    return output("squeue", "--noheader", "-o", "%T", "-j", job).strip()
  except ValueError:  # it is forgotten
    return ""


def requeue(job: str) -> bool:
  """Puts a running element back into the queue; whether SLURM takes it."""
  try:
    output("scontrol", "requeue", job)
  except ValueError:
    return False
  return True


def scancel(*arguments: str) -> None:
  """Told at once; then it asks for a minute whether what has ended has ended.

  It fails of that, too: the queue is what counts.
  """
  with contextlib.suppress(ValueError, subprocess.TimeoutExpired):
    output("scancel", *arguments, timeout=_PATIENCE)


def queue() -> list[tuple[str, str, str]]:
  """(array, element, state) of each of the user's jobs."""
  out = output("squeue", "--me", "--noheader", "--array", "-o", "%F %K %T")
  return [tuple(line.split(maxsplit=2)) for line in out.splitlines()]


def max_array_size() -> int:
  """Elements are numbered below it."""
  for line in output("scontrol", "show", "config").splitlines():
    name, _, value = line.partition("=")
    if name.strip() == "MaxArraySize":
      return int(value)
  return 1001  # SLURM's default
