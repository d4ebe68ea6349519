"""What a run shows while it runs, and what it prints at its end."""

import contextlib
import sys

import rich.console
import rich.progress

from tv_jax.runs.report import formats
from tv_jax.runs.report.writing import Report

_WIDTH = 150  # where nobody says how wide the place is


@contextlib.contextmanager
def shown(what: str = "answers"):
  """What a run tells lines to, and how many of all are there.

  A bar below lines on a terminal; lines alone elsewhere.
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


def show(made: Report) -> None:
  """The tables on standard output, what is in them, and where the page is."""
  console = rich.console.Console(
    width=None if sys.stdout.isatty() else _WIDTH, highlight=False
  )
  for table in made.tables:
    for part in formats.terminal(table, console.width):
      console.print(part)
  for line in made.definitions:
    console.print(line, style="dim", markup=False)
  for line in made.warnings:
    console.print(line, style="bold red", markup=False)
  console.print(f"report: {made.page}", soft_wrap=True, markup=False)
