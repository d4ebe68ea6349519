"""Speed: one prompt at a time, after warm-up, all ways to decode in turn.

A busy machine is then busy for all of them alike.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Hashable, Mapping, Sequence
from typing import NamedTuple, TypeVar

import jax

from tv_jax.engine.driver import Prompt, Rows
from tv_jax.engine.pair import Pair
from tv_jax.engine.plan import Records
from tv_jax.engine.settings import Settings

Name = TypeVar("Name", bound=Hashable)


class Clock(Rows):
  """Adds up the seconds of reading prompts, and of cycles.

  Attributes:
    reading: Seconds of prefill.
    cycling: Seconds of all that follows.
  """

  reading = cycling = 0.0

  def seat(self, run, seat, request, state):
    """Reads a prompt, and waits for it."""
    jax.block_until_ready(state)
    begin = time.perf_counter()
    read = jax.block_until_ready(super().seat(run, seat, request, state))
    self.reading += time.perf_counter() - begin
    return read

  def advance(self, run, request, state, *, full):
    """Runs cycles, and waits for them."""
    jax.block_until_ready(state)
    begin = time.perf_counter()
    after = super().advance(run, request, state, full=full)
    jax.block_until_ready(after)
    self.cycling += time.perf_counter() - begin
    return after


class Timed(NamedTuple):
  """One answer."""

  reading: float  # seconds
  cycling: float  # seconds
  records: Records

  @property
  def seconds(self) -> float:
    """Of the whole answer, without compilation."""
    return self.reading + self.cycling


def answer(
  clock: Clock, settings: Settings, prompt: Prompt, longest: int
) -> Timed:
  """Decodes one prompt, and times it."""
  clock.reading = clock.cycling = 0.0
  (records,) = clock.decode(settings, [prompt], longest)
  clock.caches = None  # there may be many clocks
  return Timed(clock.reading, clock.cycling, records)


def in_turn(
  pair: Pair,
  ways: Mapping[Name, Settings],
  asked: Sequence[Prompt],
  longest: int,
  *,
  rounds: int = 1,
  before: Callable[[Name, bool], None] = lambda name, warm: None,
) -> tuple[dict[Name, list[Timed]], dict[Name, float]]:
  """Times ways to decode, in turn on each prompt.

  Args:
    pair: The models.
    ways: How to decode, with a batch size of 1, by name.
    asked: The prompts.
    longest: What they are padded for.
    rounds: How often each prompt is answered in each way.
    before: Called before each answer with its way, and whether it counts: the
      first of each way is to compile and to warm up.

  Returns:
    The answers of each way, round by round; and its seconds of compilation, up
    to the first prompt.
  """
  clocks, compiling = {name: Clock(pair, 1) for name in ways}, {}
  for name, clock in clocks.items():
    before(name, False)
    answer(clock, ways[name], asked[0], longest)
    compiling[name] = clock.compile_seconds
  names, found = [*ways], {name: [] for name in ways}
  for turn in range(rounds):
    for place, prompt in enumerate(asked):
      first = (turn + place) % len(names)
      for name in (*names[first:], *names[:first]):
        before(name, True)
        own = answer(clocks[name], ways[name], prompt, longest)
        found[name].append(own)
  return found, compiling
