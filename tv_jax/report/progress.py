"""What a run shows while it runs, and what it prints at its end."""

from __future__ import annotations

import contextlib
import sys

import rich.console
import rich.progress

from tv_jax.report import formats
from tv_jax.report.writing import Report

_WIDTH = 150  # where nobody says how wide the place is


class Shown:
  """A bar below lines on a terminal; lines alone elsewhere."""

  def __init__(self, console: rich.console.Console, what: str = "answers"):
    """Nothing is shown yet; `what` is counted."""
    self.console = console
    self.bar = rich.progress.Progress(
      rich.progress.TextColumn(what),
      rich.progress.BarColumn(),
      rich.progress.MofNCompleteColumn(),
      rich.progress.TimeElapsedColumn(),
      console=console,
      disable=not console.is_terminal,
      transient=True,
    )
    self.task = self.bar.add_task(what, total=None)

  def say(self, line: str) -> None:
    """A line."""
    self.console.print(line, highlight=False, markup=False, soft_wrap=True)

  def advance(self, done: int, count: int) -> None:
    """So many of all are there."""
    self.bar.update(self.task, completed=done, total=count)


@contextlib.contextmanager
def shown(what: str = "answers"):
  """What can be told things to; `what` is counted."""
  result = Shown(rich.console.Console(stderr=True), what)
  with result.bar:
    yield result


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
