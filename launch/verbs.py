"""What is done with sweeps that were launched: status, cancel, resume."""

from __future__ import annotations

import os
import pathlib
import signal
import socket
import sys

import rich.console

from launch import on_slurm, states
from launch import sweep as sweep_lib
from launch.attempt import say
from launch.sweep import Sweep
from tv_jax.edge import cli


def status(workdir: pathlib.Path) -> int:
  """Prints how far the sweeps of a folder are; returns 1 if a unit failed."""
  # A table that is not for a terminal is not cut to one.
  width = None if sys.stdout.isatty() else 150
  console = rich.console.Console(highlight=False, width=width)
  failed = False
  for sweep in sweep_lib.read_all(workdir):
    queued = {}
    if sweep.told.backend == "slurm":
      try:
        queued = on_slurm.queue(sweep)
      except ValueError as error:
        say(f"SLURM is not asked: {error}")
    found = [
      states.look(unit, queued.get(i, "")) for i, unit in enumerate(sweep.units)
    ]
    names = ", ".join(sweep.told.experiments)
    console.print(
      f"{sweep.folder}: {names}, {sweep.told.backend}", markup=False
    )
    console.print(states.table(found))
    console.print(states.summary(found), markup=False)
    failed = failed or any(state.word == states.FAILED for state in found)
  return int(failed)


def cancel(workdir: pathlib.Path) -> int:
  """Ends what runs; finished answers stay. Returns 1 if it is out of reach."""
  reached = True
  for sweep in sweep_lib.read_all(workdir):
    if sweep.told.backend == "slurm":
      on_slurm.cancel(sweep, say)
    elif holder := sweep.holder:
      reached = _end(sweep, holder) and reached
    else:
      say(f"{sweep.folder}: nothing runs")
  return int(not reached)


def _end(sweep: Sweep, holder: dict) -> bool:
  """Tells a launcher to end; returns whether it is one of this machine."""
  if holder["host"] != socket.gethostname():
    say(f"{sweep.folder}: the launcher is on {holder['host']}: go there")
    return False
  os.kill(holder["pid"], signal.SIGTERM)
  say(f"{sweep.folder}: process {holder['pid']} is told to end")
  return True


def resume(workdir: pathlib.Path) -> int:
  """Gives the commands again: each knows what is left, tables as well."""
  result = 0
  for sweep in sweep_lib.read_all(workdir):
    command = [sys.executable, "-m", "launch", *sweep.told.arguments]
    say(" ".join(["python", *command[1:]]))
    result = cli.run_child(command, cwd=sweep.told.folder) or result
  return result


VERBS = {"status": status, "cancel": cancel, "resume": resume}
