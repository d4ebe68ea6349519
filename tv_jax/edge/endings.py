"""How a command ends: by itself, or told to by a signal; without a traceback.

Ctrl-C, SIGTERM (pre-emption) and SIGHUP (a terminal that is gone) are one
thing. The first raises KeyboardInterrupt where the command is, which it may
catch to end well; another one ends the process at once. The exit status is
that of the first, 128 and its number, whatever else is raised on the way:
a Ctrl-C amid an import may come out as any error. So ends what prints for a
reader that is gone, as `head` goes, but without a word.
"""

import contextlib
import os
import select
import signal
import sys
import threading
import traceback
from collections.abc import Callable, Iterator

SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


class Heard:
  """What has been heard of signals.

  Attributes:
    status: What to exit with; 0 as long as none was heard.
    at_once: Whether even the first one ends the process at once.
    leave: Called when it ends at once.
    abrupt: Whether to end without the interpreter's own way out even where all
      is well: something may wait for other processes.
  """

  def __init__(self):
    """Has heard none yet."""
    self.status = 0
    self.at_once = self.abrupt = False
    self.leave: Callable[[], None] = lambda: None
    self._deaf = self._waiting = self._again = False
    self._stops: list[int] | None = None

  def listen(self) -> None:
    """From now on; what is ignored, as by nohup, stays so."""
    for number in SIGNALS:
      if signal.getsignal(number) is not signal.SIG_IGN:
        signal.signal(number, self._hear)
    sys.unraisablehook = self._unraisable

  def listen_no_more(self) -> None:
    """Ignores signals: all is done, and how it ended must not change."""
    for number in SIGNALS:
      signal.signal(number, signal.SIG_IGN)

  @contextlib.contextmanager
  def deaf(self):
    """A first signal waits: one amid an import of jaxlib crashes the process.

    Handlers run between two steps of the interpreter. To block signals would
    not do: another thread may take them.
    """
    before, self._deaf = self._deaf, True
    try:
      yield
    finally:
      self._deaf = before
    if self._waiting and not before:
      self._waiting = False
      raise KeyboardInterrupt

  @contextlib.contextmanager
  def stopping(self) -> Iterator[list[int]]:
    """A Ctrl-C in here ends nothing: what is done looks, and stops by itself.

    Yields:
      What is empty until there was one.
    """
    self._stops = []
    try:
      yield self._stops
    finally:
      self._stops = None

  def word(self) -> str:
    """Returns what was heard, in words."""
    number = signal.Signals(self.status - 128)
    if number == signal.SIGINT:
      return "interrupted"
    return f"interrupted by {number.name}"

  def _hear(self, number, frame):
    del frame
    if self._again:
      self._again = False
      raise KeyboardInterrupt
    if number == signal.SIGINT and self._stops is not None:
      self._stops.append(number)
      return
    first = not self.status
    self.status = self.status or 128 + number
    if self.at_once or not first:
      self._leave_at_once()
    if self._deaf:
      self._waiting = True
    else:
      raise KeyboardInterrupt

  def _leave_at_once(self):
    # No exception: there is none that everything lets through.
    with contextlib.suppress(OSError):
      self.leave()
    cursor = "\033[?25h" if sys.stderr.isatty() else ""
    with contextlib.suppress(OSError):
      os.write(2, f"{cursor}{self.word()}\n".encode())
    os._exit(self.status)

  def _unraisable(self, unraisable):
    """A signal that came where nothing can be raised comes once more.

    In a destructor or a callback of the garbage collector it would be printed,
    and forgotten.
    """
    if isinstance(unraisable.exc_value, KeyboardInterrupt):
      threading.Timer(0.1, self._raise_again).start()
    elif not self.status:
      sys.__unraisablehook__(unraisable)

  def _raise_again(self):
    self._again = True
    if ident := threading.main_thread().ident:
      signal.pthread_kill(ident, self.status - 128)


def run(command: Callable[[Heard], int | None]) -> None:
  """Runs a command, and exits with its status, or with a signal's.

  It is given what is heard, and may exit by itself.
  """
  heard = Heard()
  heard.listen()
  try:
    try:
      status = command(heard)
    except SystemExit as error:
      code = error.code
      if isinstance(code, str):
        tell(code)
        code = 1
      status = code
    heard.at_once = True
  except BaseException as error:
    if heard.status:
      tell(heard.word())
    elif unread(error):
      status = 128 + signal.SIGPIPE
    elif heard.abrupt:
      traceback.print_exc()
      status = 1
    else:
      raise
  heard.listen_no_more()
  _flush()
  # After a failure, what is still being compiled is not waited for.
  if heard.abrupt or heard.status or status:
    os._exit(heard.status or status or 0)
  sys.exit(0)


def unread(error: BaseException) -> bool:
  """Returns whether an error says that nobody reads what is printed."""
  if not isinstance(error, BrokenPipeError):
    return False
  printed = select.poll()
  for number in (1, 2):
    printed.register(number, 0)
  return bool(printed.poll(0))  # else it was another pipe, or a connection


def tell(line: str) -> None:
  """A line on standard error, if anybody is still there to hear it."""
  with contextlib.suppress(OSError):
    print(line, file=sys.stderr, flush=True)


def _flush():
  """Flushes; what cannot be printed must not change the exit status."""
  for stream in (sys.stdout, sys.stderr):
    try:
      stream.flush()
    except OSError:
      os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())
