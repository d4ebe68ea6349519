"""Progress on stderr: a bar on a terminal, elsewhere a line a minute."""

import contextlib
import logging
import sys
import time
from collections.abc import Iterator
from typing import Protocol

import rich.console
from rich import progress

# The logger that tells what is compiled.
_COMPILER = "tv_jax.engine.programs"


class Progress(Protocol):
  """A callback that is told a step, and optionally how many are done."""

  def __call__(self, text: str, done: int = 0, total: int = 0) -> None:
    """Receives a line of text, or with `total` the state of a count."""


def silent(text: str, done: int = 0, total: int = 0) -> None:
  """Shows no progress."""


class Bar:
  """A progress bar with a description; as a function it is a `Progress`."""

  def __init__(self, shown: progress.Progress, what: str, total: int | None):
    """Adds the bar to a display."""
    self._shown, self._printed = shown, time.monotonic()
    self._what, self._task = what, shown.add_task(what, total=total)

  def __call__(self, text: str, done: int = 0, total: int = 0) -> None:
    """Prints a line above the bar, or with `total` updates the bar."""
    if total:
      self.show(text, done, total)
    else:
      self.say(text)

  def say(self, line: str) -> None:
    """Prints a line above the bar."""
    self._shown.console.print(
      line, highlight=False, markup=False, soft_wrap=True
    )

  def show(
    self,
    what: str,
    done: int | None = None,
    total: int | None = None,
    detail: str = "",
  ) -> None:
    """Updates the description and the counts."""
    self._what = f"{what} {detail}".rstrip()
    self._shown.update(
      self._task, description=self._what, completed=done, total=total
    )
    self._print()

  def compiling(self, record: logging.LogRecord) -> bool:
    """Shows what the engine compiles, until something is done: a log filter."""
    self._shown.update(self._task, description=record.getMessage())
    self._print()
    return record.levelno >= logging.WARNING

  def advance(self, count: int = 1) -> None:
    """Adds to the number of finished steps."""
    self._shown.update(self._task, advance=count, description=self._what)
    self._print()

  def _print(self) -> None:
    now = time.monotonic()
    if self._shown.disable and now > self._printed + 60:
      self._printed, (task,) = now, self._shown.tasks
      count = f"{task.completed:.0f} of {task.total}"
      print(f"{task.description}, {count}", file=sys.stderr)


@contextlib.contextmanager
def bar(total: int | None = None, what: str = "") -> Iterator[Bar]:
  """Shows a bar, and removes it at the end."""
  console = rich.console.Console(stderr=True)
  columns = (
    progress.TextColumn("{task.description}", markup=False),
    progress.BarColumn(),
    progress.MofNCompleteColumn(),
    progress.TimeElapsedColumn(),
    progress.TimeRemainingColumn(),
  )
  with progress.Progress(
    *columns, console=console, transient=True, disable=not console.is_terminal
  ) as shown:
    shown_bar, logger = Bar(shown, what, total), logging.getLogger(_COMPILER)
    level = logger.level
    logger.setLevel(logging.INFO)
    logger.addFilter(shown_bar.compiling)
    try:
      yield shown_bar
    finally:
      logger.removeFilter(shown_bar.compiling)
      logger.setLevel(level)
