"""Several experiments: `python -m experiments [NAME ..] [--jobs=N]`.

Each is a process of its own, `python -m experiments.NAME`, and is given the
other flags; without a name, all are run. N run at once, and what they print
comes when they end. Of several at once none takes times: those that have any
to take are run again when all have ended, one after the other. By default N is
1 where JAX has a GPU to use, else as many as there are cores, and 4 at most.
One that fails does not keep the others from running, and the exit status says
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
from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from experiments import names
from tv_jax.edge import cli

_MOST = 4  # of processes of 2 GB each
_JOBS = "--jobs="
_UNTIMED = {"--smoke", "--render", "--notimes"}  # with these no times are taken
# These begin before the others: the longest first, so that none is left to run
# by itself at the end, and the one of whose answers others have many.
_LONG = (
  "frontier",
  "main_table",
  "wide",
  "temperature",
  "as_published",
  "losslessness",
  "depth",
  "statistics",
  "quality",
)


class Running(NamedTuple):
  """An experiment under way: what it prints goes to a file."""

  name: str
  process: subprocess.Popen
  output: object


def main(arguments: list[str]) -> int:
  """Runs them; the status of one that failed."""
  if arguments[:1] in (["--help"], ["-h"]):
    print(f"{__doc__}\n{', '.join(names.NAMES)}")
    return 0
  wanted = cli.split([one for one in arguments if not one.startswith("-")])
  given = [one for one in arguments if one.startswith("-")]
  try:
    found = [names.find(name) for name in wanted or names.NAMES]
    jobs = _jobs([one for one in given if one.startswith(_JOBS)])
  except ValueError as error:
    return cli.complain("experiments", error)
  given = [one for one in given if not one.startswith(_JOBS)]
  several = _longest_first(one.name for one in found)
  alone = [one.name for one in found if one.measures_speed]
  if _UNTIMED & {*given}:
    alone = []
  if jobs == 1 or len(found) == 1:
    several, alone = [], [one.name for one in found]
  later = {name: [*given, "--notimes"] for name in alone}
  statuses = _at_once({name: later.get(name, given) for name in several}, jobs)
  for name in alone:
    if not statuses.get(name):
      print(f"python -m {' '.join(_command(name, given)[2:])}", flush=True)
      statuses[name] = _told(name, cli.run_child(_command(name, given)))
  return next(filter(None, statuses.values()), 0)


def _longest_first(wanted: Iterable[str]) -> list[str]:
  return sorted(
    wanted, key=lambda name: _LONG.index(name) if name in _LONG else len(_LONG)
  )


def _at_once(wanted: Mapping[str, Sequence[str]], jobs: int) -> dict[str, int]:
  """Runs several at a time, each with its flags; the status of each."""
  waiting, running, statuses = [*wanted.items()], [], {}
  with contextlib.ExitStack() as files:
    try:
      while waiting or running:
        while waiting and len(running) < jobs:
          output = files.enter_context(tempfile.TemporaryFile())
          running.append(_start(*waiting.pop(0), output))
        time.sleep(0.1)
        for one in [one for one in running if one.process.poll() is not None]:
          running.remove(one)
          _show(one)
          statuses[one.name] = _told(one.name, one.process.returncode)
    except BaseException:
      cli.end_children(one.process for one in running)
      raise
  return statuses


def _start(name: str, given: Sequence[str], output) -> Running:
  command = _command(name, given)
  print(f"python -m {' '.join(command[2:])}", flush=True)
  process = cli.start_child(command, stdout=output, stderr=subprocess.STDOUT)
  return Running(name, process, output)


def _command(name: str, given: Sequence[str]) -> list[str]:
  return [sys.executable, "-m", f"experiments.{name}", *given]


def _show(one: Running) -> None:
  """What it printed, as it was printed."""
  print(f"experiments.{one.name}:", flush=True)
  one.output.seek(0)
  shutil.copyfileobj(one.output, sys.stdout.buffer)
  sys.stdout.flush()


def _told(name: str, status: int) -> int:
  if status:
    print(f"experiments.{name} failed: {status}", file=sys.stderr)
  return status


def _jobs(flags: Sequence[str]) -> int:
  """How many at once."""
  if flags:
    number = flags[-1].removeprefix(_JOBS)
    if not number.isdigit() or not int(number):
      raise ValueError(f"{flags[-1]}: give a number of processes, from 1")
    return int(number)
  plugins = "jax_cuda12_plugin", "jax_cuda13_plugin"
  if any(map(importlib.util.find_spec, plugins)):
    return 1  # a process takes most of a GPU's memory
  return min(_MOST, os.cpu_count() or 1)


if __name__ == "__main__":
  cli.until_told(lambda heard: main(sys.argv[1:]))
