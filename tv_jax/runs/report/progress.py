"""What a run shows while it runs, and what it prints at its end."""

import contextlib
import sys
from collections.abc import Iterable

import rich.console
import rich.progress

from tv_jax.runs.report import formats
from tv_jax.runs.report.tables import Table
from tv_jax.runs.report.writing import Report

_WIDTH = 150  # where standard output is no terminal


@contextlib.contextmanager
def shown(what: str = "answers"):
  """Shows progress: yields `say(line)` and `advance(done, count)`.

  On a terminal it is a bar below the lines, elsewhere the lines alone.
  """
  console = rich.console.Console(stderr=True)
  bar = rich.progress.Progress(
    rich.progress.TextColumn(what),
    rich.progress.BarColumn(),
    rich.progress.MofNCompleteColumn(),
    rich.progress.TimeElapsedColumn(),
    console=console,
    disable=not console.is_terminal,
    transient=True,
  )
  task = bar.add_task(what, total=None)

  def say(line: str) -> None:
    console.print(line, highlight=False, markup=False, soft_wrap=True)

  def advance(done: int, count: int) -> None:
    bar.update(task, completed=done, total=count)

  with bar:
    yield say, advance


def print_tables(tables: Iterable[Table]) -> rich.console.Console:
  """Prints tables on standard output; returns the console, for more."""
  console = rich.console.Console(
    width=None if sys.stdout.isatty() else _WIDTH, highlight=False
  )
  for table in tables:
    for part in formats.terminal(table, console.width):
      console.print(part)
  return console


def show(made: Report) -> None:
  """Prints a run's tables, their definitions, and where the page is."""
  console = print_tables(made.tables)
  for line in made.definitions:
    console.print(line, style="dim", markup=False)
  for line in made.warnings:
    console.print(line, style="bold red", markup=False)
  console.print(f"report: {made.page}", soft_wrap=True, markup=False)
