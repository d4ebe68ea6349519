"""What a run shows while it runs, and what it prints at its end."""

from __future__ import annotations

import contextlib

import rich.console
import rich.progress

from tv_jax.edge import tables
from tv_jax.runs.report.writing import Report


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


def show(report: Report) -> None:
  """Prints a run's tables, their definitions, and where the page is."""
  console = tables.show(report.tables)
  for line in report.definitions:
    console.print(line, style="dim", markup=False)
  for line in report.warnings:
    console.print(line, style="bold red", markup=False)
  console.print(f"report: {report.page}", soft_wrap=True, markup=False)
