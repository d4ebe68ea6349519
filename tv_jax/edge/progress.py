"""Progress on stderr: a bar on a terminal, elsewhere a line a minute."""

import contextlib
import sys
import time
from collections.abc import Iterator

import rich.console
from rich import progress


class Bar:
  """The bar, and what is being done."""

  def __init__(self, shown: progress.Progress, what: str, total: int | None):
    """Begins."""
    self._shown, self._printed = shown, time.monotonic()
    self._task = shown.add_task(what, total=total)

  def say(self, line: str) -> None:
    """Prints a line that stays."""
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
    """Says what is being done, and how far that is."""
    text = f"{what} {detail}".rstrip()
    self._shown.update(
      self._task, description=text, completed=done, total=total
    )
    self._print()

  def advance(self, count: int = 1) -> None:
    """Counts so many more as done."""
    self._shown.advance(self._task, count)
    self._print()

  def _print(self) -> None:
    now = time.monotonic()
    if self._shown.disable and now > self._printed + 60:
      self._printed, (task,) = now, self._shown.tasks
      count = f"{task.completed:.0f} of {task.total}"
      print(f"{task.description}, {count}", file=sys.stderr)


@contextlib.contextmanager
def bar(total: int | None = None, what: str = "") -> Iterator[Bar]:
  """Shows a bar, which goes away at the end."""
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
    yield Bar(shown, what, total)
