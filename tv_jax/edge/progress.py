"""A progress bar on stderr, for work that takes longer than a moment."""

import contextlib
import sys
import time
from collections.abc import Iterator

import rich.console
import rich.progress

# Seconds after which it appears.
_PATIENCE = 2.0
_MINUTE = 60.0


class Bar:
  """The bar, and what is being done."""

  def __init__(self, total: int):
    """Shows nothing yet."""
    self._started = self._told = time.monotonic()
    self._bar = rich.progress.Progress(
      *rich.progress.Progress.get_default_columns(),
      console=rich.console.Console(stderr=True),
      transient=True,
    )
    self._task = self._bar.add_task("", total=total)

  def say(self, text: str) -> None:
    """Names what is being done from now on."""
    self._bar.update(self._task, description=text)

  def advance(self, count: int = 1) -> None:
    """Counts so many things as done."""
    self._bar.advance(self._task, count)
    if time.monotonic() - self._started > _PATIENCE:
      self._bar.start()

  def show(self, what: str, done: int, total: int, how: str = "") -> None:
    """Says what is done and how far that is.

    Where nobody looks, as in a file, that is a line a minute.
    """
    text = f"{what}: {how}" if how else what
    self._bar.update(self._task, description=text, completed=done, total=total)
    if self._bar.console.is_terminal:
      self.advance(0)
    elif time.monotonic() - self._told > _MINUTE or done == total:
      self._told = time.monotonic()
      print(f"{what}, {done} of {total} {how}".rstrip(), file=sys.stderr)

  def stop(self) -> None:
    """Takes the bar away, if it was there: that leaves an empty line."""
    if self._bar.live.is_started:
      self._bar.stop()


@contextlib.contextmanager
def bar(total: int) -> Iterator[Bar]:
  """Makes a bar that goes away at the end."""
  made = Bar(total)
  try:
    yield made
  finally:
    made.stop()
