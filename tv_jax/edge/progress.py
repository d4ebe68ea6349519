"""A progress bar on stderr; a line a minute where that is no terminal."""

import contextlib
import sys
import time
from collections.abc import Iterator

import rich.console
import rich.progress


class Bar:
  """The bar, and what is being done."""

  def __init__(self, progress: rich.progress.Progress, total: int):
    """Begins."""
    self._progress, self._printed = progress, time.monotonic()
    self._task = progress.add_task("", total=total)

  def say(self, text: str) -> None:
    """Names what is being done from now on."""
    self._progress.update(self._task, description=text)

  def advance(self, count: int = 1) -> None:
    """Counts so many things as done."""
    self._progress.advance(self._task, count)

  def show(self, what: str, done: int, total: int, how: str = "") -> None:
    """Says what is done and how far that is."""
    text = f"{what} {how}".rstrip()
    self._progress.update(
      self._task, description=text, completed=done, total=total
    )
    now = time.monotonic()
    if self._progress.disable and (done == total or now > self._printed + 60):
      self._printed = now
      print(f"{text}, {done} of {total}", file=sys.stderr)


@contextlib.contextmanager
def bar(total: int) -> Iterator[Bar]:
  """Shows a bar, which goes away at the end."""
  console = rich.console.Console(stderr=True)
  with rich.progress.Progress(
    console=console, transient=True, disable=not console.is_terminal
  ) as progress:
    yield Bar(progress, total)
