"""A progress bar, for work that takes longer than a moment."""

import contextlib
import time

import rich.console
import rich.progress

# Seconds after which it appears.
_PATIENCE = 2.0


class Shown:
  """The bar, and what is being done."""

  def __init__(self, total: int):
    """Shows nothing yet."""
    self._started = time.monotonic()
    self._bar = rich.progress.Progress(
      *rich.progress.Progress.get_default_columns(),
      console=rich.console.Console(stderr=True),
      transient=True,
    )
    self._task = self._bar.add_task("", total=total)

  def say(self, text: str) -> None:
    """What is being done from now on."""
    self._bar.update(self._task, description=text)

  def advance(self) -> None:
    """One thing more is done."""
    self._bar.advance(self._task)
    if time.monotonic() - self._started > _PATIENCE:
      self._bar.start()

  def stop(self) -> None:
    """Takes the bar away, if it was there: that leaves an empty line."""
    if self._bar.live.is_started:
      self._bar.stop()


@contextlib.contextmanager
def shown(total: int):
  """The bar, which goes away at the end."""
  bar = Shown(total)
  try:
    yield bar
  finally:
    bar.stop()
