"""Several experiments: `python -m experiments [NAME ..] [--jobs=N]`.

Runs all experiments, or those that are named, each in a process of its own that
is given the other flags. N run at once; each prints when it ends. By default N
is 1 where JAX has a GPU to use, else the number of cores, at most 4. If several
run at once, none takes times: those that need times run again in the end, one
after the other. If one fails the others run all the same; the exit status says
so.
"""

from __future__ import annotations

import contextlib
import importlib.util
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence

from experiments import names
from tv_jax.edge import cli

_MOST = 4  # processes of 2 GB each
_UNTIMED = {"--smoke", "--render", "--notimes"}  # with these no times are taken
# These begin first: the longest, so that none is left to run alone in the end.
_LONG = (
  "frontier",
  "main_table",
  "temperature",
  "losslessness",
  "drafts",
  "depth",
  "statistics",
  "quality",
)


def main(arguments: list[str]) -> int:
  """Runs the experiments; returns the status of one that failed."""
  if arguments[:1] in (["--help"], ["-h"]):
    print(f"{__doc__}\n{', '.join(names.NAMES)}")
    return 0
  wanted = cli.split([one for one in arguments if not one.startswith("-")])
  given = [one for one in arguments if one.startswith("-")]
  try:
    found = [names.find(name) for name in wanted or names.NAMES]
    jobs = _jobs([one for one in given if one.startswith("--jobs=")])
  except ValueError as error:
    return cli.complain("experiments", error)
  given = [one for one in given if not one.startswith("--jobs=")]
  several = [one.name for one in found]
  several.sort(key=lambda name: (*_LONG, name).index(name))
  alone = [one.name for one in found if one.measures_speed]
  if jobs == 1 or len(found) == 1:
    several, alone = [], [one.name for one in found]
  elif _UNTIMED & {*given}:
    alone = []
  statuses = _at_once(
    {name: [*given, *["--notimes"] * (name in alone)] for name in several}, jobs
  )
  for name in alone:
    if not statuses.get(name):
      command = _command(name, given)
      statuses[name] = _told(name, cli.run_child(command))
  return next(filter(None, statuses.values()), 0)


def _at_once(wanted: Mapping[str, Sequence[str]], jobs: int) -> dict[str, int]:
  """Runs several at a time, each with its flags; returns their statuses."""
  waiting, running, statuses = [*wanted.items()], {}, {}
  with contextlib.ExitStack() as files:
    try:
      while waiting or running:
        while waiting and len(running) < jobs:
          name, given = waiting.pop(0)
          output = files.enter_context(tempfile.TemporaryFile())
          process = cli.start_child(
            _command(name, given), stdout=output, stderr=subprocess.STDOUT
          )
          running[name] = process, output
        time.sleep(0.1)
        for name, (process, output) in [*running.items()]:
          if process.poll() is not None:
            del running[name]
            _show(name, output)
            statuses[name] = _told(name, process.returncode)
    except BaseException:
      cli.end_children(process for process, _ in running.values())
      raise
  return statuses


def _command(name: str, given: Sequence[str]) -> list[str]:
  """Returns the command of an experiment, and prints it."""
  command = ["-m", f"experiments.{name}", *given]
  print(f"python {' '.join(command)}", flush=True)
  return [sys.executable, *command]


def _show(name: str, output) -> None:
  """Prints what an experiment has printed."""
  print(f"experiments.{name}:", flush=True)
  output.seek(0)
  shutil.copyfileobj(output, sys.stdout.buffer)
  sys.stdout.flush()


def _told(name: str, status: int) -> int:
  if status:
    print(f"experiments.{name} failed: {status}", file=sys.stderr)
  return status


def _jobs(flags: Sequence[str]) -> int:
  """Returns how many to run at once."""
  if flags:
    number = flags[-1].removeprefix("--jobs=")
    if not number.isdigit() or not int(number):
      raise ValueError(f"{flags[-1]}: give a number of processes, from 1")
    return int(number)
  plugins = "jax_cuda12_plugin", "jax_cuda13_plugin"
  if any(map(importlib.util.find_spec, plugins)):
    return 1  # a process takes most of a GPU's memory
  return min(_MOST, os.cpu_count() or 1)


if __name__ == "__main__":
  cli.until_told(lambda heard: main(sys.argv[1:]))
