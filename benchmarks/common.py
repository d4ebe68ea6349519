"""Shared by the benchmarks: flags, models, prompts, races, tables."""

from __future__ import annotations

import argparse
import dataclasses
import datetime
import platform
import shlex
import sys
import types
from collections.abc import Callable, Sequence
from typing import Any

import jax
import numpy as np

import tv_jax
from benchmarks import gpu_shapes
from tv_jax.edge import cli, disk, endings, names
from tv_jax.engine.pair import Pair
from tv_jax.runs import environment
from tv_jax.tree import Tree, parse

RANDOM = (
  "RANDOM WEIGHTS: times are those of this shape; acceptance means nothing."
)


class Parser(argparse.ArgumentParser):
  """Reads flags; a wrong one is refused in one line, with status 2."""

  def __init__(self, name: str, text: str | None):
    """Describes the command `name` of this package by its module's `text`."""
    super().__init__(
      prog=f"benchmarks.{name}",
      description=text,
      formatter_class=argparse.RawDescriptionHelpFormatter,
    )

  def print_help(self, file=None):
    """Prints help; argparse itself would hide that nobody reads it."""
    del file
    print(self.format_help(), flush=True)

  def error(self, message: str):
    """Complains and exits."""
    sys.exit(cli.complain(self.prog, message))


def at_least(least: int) -> Callable[[str], int]:
  """Makes a reader of whole numbers, none of them below `least`."""

  def number(text: str) -> int:
    if (found := int(text)) < least:
      raise argparse.ArgumentTypeError(f"{text}: give {least} or more")
    return found

  return number


def add_pair(parser: Parser) -> None:
  """Adds the flags that name a pair."""
  parser.add_argument("--draft", help="a folder or a repository")
  parser.add_argument("--target", help="likewise; neither: random weights")
  shapes = gpu_shapes.PAIRS
  parser.add_argument("--shape", choices=shapes, default=shapes[0])
  parser.add_argument("--out", "--markdown", help="an .md for the tables")
  parser.add_argument("--rounds", type=at_least(1), default=7)


def check_out(path: str | None) -> None:
  """Refuses a file for tables that could not be written."""
  flag: Any = types.SimpleNamespace(name="out", value=path)
  cli.check_place(flag, ".md")


def run(name: str, main: Callable[[list[str]], int | None]) -> None:
  """Runs a command and exits; a user's error is one line, and status 2."""

  def command(heard):
    try:
      return main(sys.argv[1:])
    except (ValueError, OSError) as error:
      if heard.status or endings.unread(error):
        raise
      return cli.complain(f"benchmarks.{name}", error)

  cli.until_told(command)


def tree(text: str) -> Tree:
  """Reads a tree that is known beforehand."""
  found = parse(text)
  if not isinstance(found, Tree):
    raise ValueError(f"tree {text!r}: give one that is known beforehand")
  return found


def parse_trees(text: str, read: Callable = tree) -> dict:
  """Reads trees, by name."""
  try:
    return {name: read(name) for name in names.split(text)}
  except ValueError as error:
    raise ValueError(f"--trees: {error}") from error


def read_pair(given: argparse.Namespace, kind: str = "independent") -> Pair:
  """Loads the pair of the flags, or makes a random one without paths.

  Args:
    given: What `add_pair`'s flags say.
    kind: Of the draft.
  """
  check_out(given.out)
  if (given.target is None) != (given.draft is None):
    raise ValueError("give both --draft and --target, or neither")
  if given.target is None:
    return gpu_shapes.random_pair(given.shape)
  return tv_jax.load(given.draft, given.target, draft_kind=kind)


def race(methods: dict, rounds: int, seed, say: Callable = print) -> dict:
  """Calls all methods in each round, in a new random order.

  Args:
    methods: Functions of the round's number, by name; all are warm.
    rounds: How many.
    seed: Of the orders, or a generator.
    say: Told about progress.

  Returns:
    Results [rounds] by name.
  """
  rng = np.random.default_rng(seed)
  order = list(methods)
  results = {name: [None] * rounds for name in order}
  for turn in range(rounds):
    say(f"round {turn + 1} of {rounds}")
    for place in rng.permutation(len(order)):
      results[order[place]][turn] = methods[order[place]](turn)
  return results


def spread(values) -> str:
  """Formats the median and the quartiles."""
  low, middle, high = np.percentile(values, [25, 50, 75])
  return f"{middle:.2f} ({low:.2f} to {high:.2f})"


@dataclasses.dataclass(frozen=True, kw_only=True)
class Table:
  """Cells by row, the header first; the first column says what a row is."""

  title: str
  header: list[str]
  rows: list[list[str]]

  def show(self) -> str:
    """Prints it as Markdown, and returns that."""
    cells = [self.header, *self.rows]
    widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
    cells.insert(1, ["-" * width for width in widths])
    lines = [
      f"| {' | '.join(map(str.ljust, row, widths))} |".rstrip() for row in cells
    ]
    text = "\n".join([f"### {self.title}", "", *lines])
    print(f"\n{text}", flush=True)
    return text


def setting(name: str, arguments: Sequence[str], more: str = "") -> list[str]:
  """Prints and returns when, on what and with what, and the command."""
  device = jax.devices()[0].device_kind
  lines = [
    f"{datetime.date.today()}; {device}; {environment.cpu()},"
    f" {environment.cores()} cores",
    f"tv_jax {tv_jax.__version__}, jax {jax.__version__}, NumPy"
    f" {np.__version__}, Python {platform.python_version()}{more}",
    f"    python -m benchmarks.{name} {shlex.join(arguments)}".rstrip(),
  ]
  print("\n".join(lines), flush=True)
  return lines


def describe(pair: Pair, given: argparse.Namespace) -> list[str]:
  """Prints and returns the models' shapes, and whether they are random."""

  def shape(config):
    return (
      f"{config.num_hidden_layers} x {config.hidden_size}, vocabulary"
      f" {config.vocab_size}"
    )

  assert pair.draft
  text = (
    f"Target {shape(pair.target.config)}; draft {shape(pair.draft.config)};"
    f" {pair.target.config.kept}."
  )
  lines = [text] if given.target else [text, RANDOM]
  print("\n".join(lines), flush=True)
  return lines


def write(path: str | None, parts: list[str]) -> None:
  """Writes what was printed to a file, if one is wanted."""
  if path:
    disk.write_atomic(path, "\n\n".join(parts) + "\n")


def say(text: str) -> None:
  """Tells about progress, apart from the results."""
  print(f"{text} ..", file=sys.stderr, flush=True)
