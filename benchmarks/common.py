"""Shared by the benchmarks: trees by name, races, tables."""

from __future__ import annotations

import dataclasses
import datetime
import pathlib
import platform
import shlex
import sys
from collections.abc import Callable

import jax
import numpy as np

import tv_jax
from tv_jax.edge import tables
from tv_jax.runs import environment
from tv_jax.tree import Tree, parse


def tree(text: str) -> Tree:
  """Reads a tree that is known beforehand."""
  found = parse(text)
  if not isinstance(found, Tree):
    raise ValueError(f"tree {text!r}: give one that is known beforehand")
  return found


def race(methods: dict[str, Callable], rounds: int, seed: int) -> dict:
  """Calls all methods in each round, in a new random order.

  Args:
    methods: Functions of the round's number, by name; all are warm.
    rounds: How many.
    seed: Of the orders.

  Returns:
    Results [rounds] by name.
  """
  rng = np.random.default_rng(seed)
  names = list(methods)
  results: dict[str, list] = {name: [] for name in names}
  for turn in range(rounds):
    for place in rng.permutation(len(names)):
      results[names[place]].append(methods[names[place]](turn))
  return results


@dataclasses.dataclass(frozen=True, kw_only=True)
class Table:
  """Cells by row, the header first; the first column says what a row is."""

  title: str
  header: list[str]
  rows: list[list[str]]

  def show(self) -> str:
    """Prints it as Markdown, and returns that."""
    table = tables.Table(self.title, [], self.header, self.rows)
    text = tables.markdown(table).rstrip()
    print(f"\n{text}", flush=True)
    return text


def setting(name: str, more: str = "") -> str:
  """Prints and returns when, on what and with what, and the command."""
  text = "\n".join(
    [
      f"{datetime.date.today()}; {jax.devices()[0].device_kind};"
      f" {environment.cpu()}, {environment.cores()} cores",
      f"tv_jax {tv_jax.__version__}, jax {jax.__version__}, NumPy"
      f" {np.__version__}, Python {platform.python_version()}{more}",
      f"    python -m benchmarks.{name} {shlex.join(sys.argv[1:])}".rstrip(),
    ]
  )
  print(text, flush=True)
  return text


def write(path: str | None, parts: list[str]) -> None:
  """Writes what was printed to a file, if one is wanted."""
  if path:
    pathlib.Path(path).write_text("\n\n".join(parts) + "\n")


def say(text: str) -> None:
  """Tells about progress, apart from the results."""
  print(f"{text} ..", file=sys.stderr, flush=True)
