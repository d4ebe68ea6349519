"""Shared by the benchmarks: races and tables."""

from __future__ import annotations

import datetime
import platform
import shlex
import sys
from collections.abc import Callable

import jax
import numpy as np
import pandas as pd

import tv_jax
from tv_jax.io import machine
from tv_jax.runs import environment


def race(methods: dict[str, Callable], rounds: int, seed: int) -> dict:
  """Calls all methods in each round, in a new random order.

  Args:
    methods: Functions of the round's number, by name, warmed up before.
    rounds: Number of rounds.
    seed: Seed of the random orders.

  Returns:
    Results [rounds] by name.
  """
  rng = np.random.default_rng(seed)
  results: dict[str, list] = {name: [] for name in methods}
  for turn in range(rounds):
    for name in rng.permutation([*methods]):
      results[name].append(methods[name](turn))
  return results


def show(title: str, header: list[str], rows: list[list[str]]) -> None:
  """Prints a table as Markdown."""
  text = pd.DataFrame(rows, columns=header).to_markdown(
    index=False, disable_numparse=True
  )
  print(f"\n### {title}\n\n{text}", flush=True)


def setting(name: str, more: str = "") -> None:
  """Prints the date, the machine, the versions and the command."""
  print(
    f"{datetime.date.today()}; {jax.devices()[0].device_kind};"
    f" {environment.cpu()}, {machine.cores()} cores\n"
    f"tv_jax {tv_jax.__version__}, jax {jax.__version__}, NumPy"
    f" {np.__version__}, Python {platform.python_version()}{more}\n"
    f"    python -m benchmarks.{name} {shlex.join(sys.argv[1:])}".rstrip(),
    flush=True,
  )


def say(text: str) -> None:
  """Prints progress to stderr."""
  print(f"{text} ..", file=sys.stderr, flush=True)
