"""How far units are, read from their folders, and the tables of that."""

from __future__ import annotations

import contextlib
import statistics
import sys
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

DONE, RUNNING, QUEUED = "done", "running", "queued"
FAILED, STOPPED, WAITING = "failed", "stopped", "waiting"
WORDS = (DONE, RUNNING, QUEUED, FAILED, STOPPED, WAITING)
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
    """Seconds; None if nobody can say."""
    if self.word == DONE:
      return 0.0
    if self.rate is None or self.expected is None:
      return None
    return (self.expected - self.answers) / self.rate


def look(unit: Unit, queued: str = "") -> State:
  """How far a unit is.

  Args:
    unit: Which.
    queued: What a scheduler's queue says of it.
  """
  last, answers = tries.last(unit.folder), unit.answers
  word, rate, told = WAITING, None, ""
  if unit.finished and not (last and last.status in attempt.HOPELESS):
    word = DONE
  elif last and last.alive and queued in ("", "RUNNING"):
    word, told = RUNNING, _where(last)
    if answers > last.answers:
      rate = (answers - last.answers) / max(time.time() - last.begin, 1e-3)
  elif queued:
    word, told = QUEUED, queued.lower()
  elif last and last.status in attempt.HOPELESS:
    word, told = FAILED, unit.last_words
  elif last and last.given_up:
    word, told = FAILED, f"{_how(last)}: {unit.last_words}"
  elif last:
    word, told = STOPPED, _how(last)
  return State(unit, word, answers, unit.expected, rate, told)


def _where(last) -> str:
  devices = f", CUDA {last.devices}" if last.devices else ""
  return f"{last.host}{devices}"


def _how(last) -> str:
  if last.status is None:
    return "was killed"
  if last.status in (tries.STOPPED, 130, 129):
    return "was told to end"
  return f"status {last.status}"


def summary(states: Sequence[State]) -> str:
  """A line: how many are how far, and how long it may take."""
  count = dict.fromkeys(WORDS, 0)
  for state in states:
    count[state.word] += 1
  said = [f"{count[word]} {word}" for word in WORDS if count[word]]
  line = f"{len(states)} units: {', '.join(said)}"
  left = _left(states)
  return f"{line}; about {_duration(left)} left" if left else line


def _left(states) -> float | None:
  """Seconds, if all go on like those that run."""
  rates = [state.rate for state in states if state.rate]
  known = [state.expected for state in states if state.expected]
  if not rates or not known:
    return None
  usual = statistics.mean(known)
  open_ = [state for state in states if state.word not in (DONE, FAILED)]
  answers = sum((one.expected or usual) - one.answers for one in open_)
  return answers / statistics.mean(rates) / len(rates)


def _duration(seconds: float) -> str:
  if seconds < 90:
    return f"{seconds:.0f} s"
  if seconds < 5400:
    return f"{seconds / 60:.0f} min"
  return f"{seconds / 3600:.1f} h"


def table(states: Sequence[State], rows: int | None = None):
  """What is to be seen: all, or where that is too much what is under way."""
  made = rich.table.Table(box=None, pad_edge=False)
  for name in ("unit", "is", "answers", "left", ""):
    right = name in ("answers", "left")
    made.add_column(name, justify="right" if right else "left")
  shown = [*states]
  if rows is not None and len(shown) > rows:
    rank = (RUNNING, FAILED, STOPPED, QUEUED, WAITING, DONE)
    shown.sort(key=lambda state: rank.index(state.word))
    shown = shown[:rows]
  for state in shown:
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
  seen: dict[str, State] = {}

  def states():
    for unit in units:  # what is done stays so
      if unit.name not in seen or seen[unit.name].word != DONE:
        seen[unit.name] = look(unit)
    return [seen[unit.name] for unit in units]

  def drawn():
    now = states()
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
      _print(summary(states()))

  thread = threading.Thread(target=lines, daemon=True)
  thread.start()
  try:
    yield _print
  finally:
    over.set()
    thread.join()


def _print(line: str) -> None:
  print(line, file=sys.stdout, flush=True)
