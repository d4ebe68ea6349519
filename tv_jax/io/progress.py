"""Progress on stderr: a bar on a terminal, elsewhere a line a minute."""

import contextlib
import logging
import sys
import time
from collections.abc import Iterator
from typing import Protocol

import rich.console
from rich import progress

# The logger that names the programs that are compiled.
COMPILER = logging.getLogger("tv_jax.engine.programs")


class Progress(Protocol):
  """A callback that is told a step, and optionally how many are done."""

  def __call__(self, text: str, done: int = 0, total: int = 0) -> None:
    """Receives a line of text, or with `total` the state of a count."""


def silent(text: str, done: int = 0, total: int = 0) -> None:
  """Shows no progress."""


class Bar(logging.Handler):
  """A progress bar: a `Progress`, and a handler that shows log records."""

  def __init__(self, shown: progress.Progress):
    """Adds the bar to a display."""
    super().__init__()
    self._shown, self._printed = shown, time.monotonic()
    self._task = shown.add_task("", total=None)

  def __call__(self, text: str, done: int = 0, total: int = 0) -> None:
    """Prints a line above the bar, or with `total` updates the bar."""
    if total:
      self._update(description=text, completed=done, total=total)
    else:
      self._shown.console.print(
        text, highlight=False, markup=False, soft_wrap=True
      )

  def emit(self, record: logging.LogRecord) -> None:
    """Prints a warning; shows any other message until the next update."""
    if record.levelno >= logging.WARNING:
      self(record.getMessage())
    else:
      self._update(description=record.getMessage())

  def _update(self, **fields) -> None:
    self._shown.update(self._task, **fields)
    now = time.monotonic()
    if self._shown.disable and now > self._printed + 60:
      self._printed, (task,) = now, self._shown.tasks
      count = f", {task.completed:.0f} of {task.total}" * bool(task.total)
      print(f"{task.description}{count}", file=sys.stderr)


@contextlib.contextmanager
def bar() -> Iterator[Bar]:
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
    shown_bar, level = Bar(shown), COMPILER.level
    COMPILER.setLevel(logging.INFO)
    COMPILER.addHandler(shown_bar)
    COMPILER.propagate = False
    try:
      yield shown_bar
    finally:
      COMPILER.propagate = True
      COMPILER.removeHandler(shown_bar)
      COMPILER.setLevel(level)
