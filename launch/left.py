"""What is left to start: units that are not done, or are done no more.

What a unit read may have changed since: a tree's file, a rule, weights. Whether
it has is for the run to say, and that takes jax: a process of its own is asked,
of all units at once, `python -m launch.left FOLDER ..`.
"""

from __future__ import annotations

import contextlib
import importlib
import json
import os
import pathlib
import subprocess
import sys
from collections.abc import Sequence

from launch.units import Unit
from tv_jax.edge import cli


def of(units: Sequence[Unit]) -> list[Unit]:
  """The units that are to be started; in doubt, all: a run knows better."""
  folders = [str(unit.folder) for unit in units if unit.done]
  same = _unchanged(folders) if folders else []
  return [unit for unit in units if str(unit.folder) not in same]


def _unchanged(folders: list[str]) -> list[str]:
  """Those of these that would be made of the same again."""
  done = subprocess.run(
    [sys.executable, "-m", "launch.left", "--", *folders],
    capture_output=True,
    check=False,
    env={**os.environ, "JAX_PLATFORMS": "cpu"},  # a GPU is left to the units
  )
  return json.loads(done.stdout) if done.returncode == 0 else []


def main(heard, folders) -> None:
  """Prints the folders of which nothing has changed."""
  same = []
  with contextlib.redirect_stdout(sys.stderr):  # rules may print
    with heard.deaf():
      from tv_jax import runs

      importlib.import_module("tv_jax.runs.running")
    for folder in folders:
      with contextlib.suppress(ValueError, OSError):
        if runs.unchanged(pathlib.Path(folder)):
          same.append(folder)
  print(json.dumps(same))


if __name__ == "__main__":
  cli.run("launch.left", main)
