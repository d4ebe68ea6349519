"""A time limit of one run."""

from __future__ import annotations

import contextlib
import gc
import signal
import threading
import time

# Rings again after so many seconds, where the first was caught.
_AGAIN = 1.0
_MOMENT = 0.01


@contextlib.contextmanager
def limit(seconds: float, error: type[BaseException]):
  """Ends what takes longer; where there are no signals, it is not ended.

  An alarm that is set already, as a test's own time limit, goes on after it.
  """
  main = threading.current_thread() is threading.main_thread()
  if not main or not hasattr(signal, "setitimer"):
    yield
    return

  def ring(_, frame):
    if frame and frame.f_code in (
      getattr(x, "__code__", 0) for x in gc.callbacks
    ):
      # What is raised there ends nothing: again in a moment.
      signal.setitimer(signal.ITIMER_REAL, _MOMENT, _AGAIN)
      return
    raise error(
      f"a run did not end in {seconds:g} seconds: does this loop end?"
    )

  handler = signal.signal(signal.SIGALRM, ring)
  begin = time.monotonic()
  left, every = signal.setitimer(signal.ITIMER_REAL, seconds, _AGAIN)
  try:
    yield
  finally:
    signal.setitimer(signal.ITIMER_REAL, 0)
    signal.signal(signal.SIGALRM, handler or signal.SIG_DFL)
    if left:
      left = max(left - (time.monotonic() - begin), 1e-3)
      signal.setitimer(signal.ITIMER_REAL, left, every)
