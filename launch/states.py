"""How far units are, read from their folders, and the tables of that."""

from __future__ import annotations

import contextlib
import statistics
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

import rich.console
import rich.live
import rich.table
import rich.text

from launch import attempt, tries
from launch.units import Unit

# In the order of a table that has no room for all.
WORDS = RUNNING, FAILED, STOPPED, QUEUED, WAITING, DONE = (
  "running",
  "failed",
  "stopped",
  "queued",
  "waiting",
  "done",
)
_ROWS = 30  # of a table that is watched
_EVERY = 60.0  # seconds between two lines, where there is no terminal


class State(NamedTuple):
  """How far a unit is.

  Attributes:
    unit: Which.
    word: One of WORDS.
    answers: That there are.
    expected: That there will be; None: it has not said so yet.
    rate: Answers a second; None if it does not run, or has none yet.
    told: More, in words.
  """

  unit: Unit
  word: str
  answers: int
  expected: int | None
  rate: float | None
  told: str

  @property
  def left(self) -> float | None:
    """Seconds until it is done; None if nobody can say."""
    if self.rate is None or self.expected is None:
      return None
    return (self.expected - self.answers) / self.rate


def look(unit: Unit, queued: str = "") -> State:
  """Returns how far a unit is.

  Args:
    unit: Which.
    queued: What a scheduler's queue says of it.
  """
  last, answers = tries.last(unit.folder), unit.answers
  hopeless = last is not None and last.status in attempt.HOPELESS
  word, rate, told = WAITING, None, ""
  if unit.finished and not hopeless:
    word = DONE
  elif last and last.alive and queued in ("", "RUNNING"):
    devices = f", CUDA {last.devices}" if last.devices else ""
    word, told = RUNNING, f"{last.host}{devices}"
    if answers > last.answers:
      rate = (answers - last.answers) / max(time.time() - last.begin, 1e-3)
  elif queued:
    word, told = QUEUED, queued.lower()
  elif hopeless:
    word, told = FAILED, unit.last_words
  elif last and last.given_up:
    word, told = FAILED, f"{_how(last)}: {unit.last_words}"
  elif last:
    word, told = STOPPED, _how(last)
  return State(unit, word, answers, unit.expected, rate, told)


def _how(last: tries.Try) -> str:
  if last.status is None:
    return "was killed"
  if last.status in (tries.STOPPED, 130, 129):
    return "was told to end"
  return f"status {last.status}"


def summary(states: Sequence[State]) -> str:
  """Returns a line: how many are how far, and how long the rest may take."""
  words = [state.word for state in states]
  said = [f"{words.count(one)} {one}" for one in WORDS if one in words]
  line = f"{len(states)} units: {', '.join(said)}"
  rates = [state.rate for state in states if state.rate]
  known = [state.expected for state in states if state.expected]
  if not rates or not known:
    return line
  # If all continue like those that run.
  usual = statistics.mean(known)
  answers = sum(
    (one.expected or usual) - one.answers
    for one in states
    if one.word not in (DONE, FAILED)
  )
  return f"{line}; about {_duration(answers / sum(rates))} left"


def _duration(seconds: float) -> str:
  if seconds < 90:
    return f"{seconds:.0f} s"
  if seconds < 5400:
    return f"{seconds / 60:.0f} min"
  return f"{seconds / 3600:.1f} h"


def table(states: Sequence[State], rows: int | None = None) -> rich.table.Table:
  """Returns the table of all, or of those under way if they are too many."""
  made = rich.table.Table(box=None, pad_edge=False)
  for name in ("unit", "is", "answers", "left", ""):
    right = name in ("answers", "left")
    made.add_column(name, justify="right" if right else "left")
  shown = [*states]
  if rows is not None and len(shown) > rows:
    shown.sort(key=lambda state: WORDS.index(state.word))
  for state in shown[:rows]:
    count = f"{state.answers}"
    if state.expected:
      count += f"/{state.expected}"
    left = _duration(state.left) if state.left else ""
    row = (state.unit.name, state.word, count, left, state.told)
    made.add_row(*map(rich.text.Text, row))  # brackets are no markup
  return made


@contextlib.contextmanager
def watched(units: Sequence[Unit]) -> Iterator[Callable[[str], None]]:
  """Shows how far units are, meanwhile: a live table, or a line a minute.

  Yields:
    What prints a line.
  """
  console = rich.console.Console(highlight=False)

  def drawn():
    now = [look(unit) for unit in units]
    return rich.console.Group(table(now, _ROWS), summary(now))

  if console.is_terminal:
    with rich.live.Live(
      get_renderable=drawn, console=console, refresh_per_second=1
    ):
      yield lambda line: console.print(line, markup=False, soft_wrap=True)
    return
  over = threading.Event()

  def lines():
    while not over.wait(_EVERY):
      attempt.say(summary([look(unit) for unit in units]))

  thread = threading.Thread(target=lines, daemon=True)
  thread.start()
  try:
    yield attempt.say
  finally:
    over.set()
    thread.join()
