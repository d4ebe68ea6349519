"""SLURM's own commands, and what they answer."""

from __future__ import annotations

import contextlib
import subprocess

_PATIENCE = 10.0  # seconds, with scancel


def output(*command: str, timeout: float | None = None) -> str:
  """Returns what one of SLURM's commands prints.

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
  """Returns SLURM's word for an element, as 12_3; empty if it has none."""
  try:
    return output("squeue", "--noheader", "-o", "%T", "-j", job).strip()
  except ValueError:  # it is forgotten
    return ""


def requeue(job: str) -> bool:
  """Puts a running element back into the queue; returns whether SLURM does."""
  try:
    output("scontrol", "requeue", job)
  except ValueError:
    return False
  return True


def scancel(*arguments: str) -> None:
  """Signals or ends jobs.

  Having done so, scancel asks for a minute whether what has ended has ended,
  and fails because of that, too. So its status says nothing: the queue does.
  """
  with contextlib.suppress(ValueError, subprocess.TimeoutExpired):
    output("scancel", *arguments, timeout=_PATIENCE)


def queue() -> list[list[str]]:
  """Returns (array, element, state) of each of the user's jobs."""
  out = output("squeue", "--me", "--noheader", "--array", "-o", "%F %K %T")
  return [line.split(maxsplit=2) for line in out.splitlines()]


def max_array_size() -> int:
  """Returns the number below which an array's elements are numbered."""
  for line in output("scontrol", "show", "config").splitlines():
    name, _, value = line.partition("=")
    if name.strip() == "MaxArraySize":
      return int(value)
  return 1001  # SLURM's default
