"""Speed, measured apart from everything else: batch 1, after warm-up.

All methods take turns on each question, so that a busy machine is busy for all
of them alike. Nothing else is computed: no panel, no trace.
"""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Callable, Sequence

import jax

from tv_jax import generation, prompts
from tv_jax.evaluate import answers, environment, methods, selecting
from tv_jax.evaluate.settings import Run
from tv_jax.generation import batches
from tv_jax.pair import Pair
from tv_jax.prompts import Question
from tv_jax.records import Method


@dataclasses.dataclass
class Clock:
  """A method, and its times so far."""

  method: Method
  how: generation.Settings
  seconds: list[float] = dataclasses.field(default_factory=list)
  tokens: list[int] = dataclasses.field(default_factory=list)
  cycles: list[int] = dataclasses.field(default_factory=list)
  compile_seconds: float = 0.0


def measure(
  pair: Pair,
  settings: Run,
  questions: Sequence[Question],
  say: Callable[[str], None],
) -> dict | None:
  """Times the methods of the first seed on some questions' first turns.

  Args:
    pair: The models.
    settings: The run's.
    questions: All of the run's.
    say: Told what is going on.

  Returns:
    What is kept as a run's timing; None if there is nothing to time.
  """
  timed = prompts.limit(questions, per_task=settings.timing.per_task)
  asked = _encode(pair, settings, timed)
  if not asked:
    say("timing: none, for no question leaves room for an answer")
    return None
  clocks = []
  for method in methods.grid(settings):
    if method.seed == settings.seeds[0]:
      options = _options(settings, method)
      how = generation.resolve(pair, batch_size=1, **options)
      clocks.append(Clock(method=method, how=how))
  longest = max(len(tokens) for _, tokens in asked)
  for clock in clocks:
    say(f"timing: {clock.method} (compiling)")
    *_, clock.compile_seconds = _run(pair, settings, clock, asked[0], longest)
  say(f"timing: {len(clocks)} methods in turn on {len(asked)} questions")
  for turn in range(settings.timing.rounds):
    for place, one in enumerate(asked):
      first = (turn + place) % len(clocks)
      for clock in (*clocks[first:], *clocks[:first]):
        seconds, kept, cycles, _ = _run(pair, settings, clock, one, longest)
        clock.seconds.append(seconds)
        clock.tokens.append(kept)
        clock.cycles.append(cycles)
  timed = [question for question, _ in asked] * settings.timing.rounds
  return {
    "environment": environment.describe(),
    "methods": [
      {
        **clock.method.pooled("seed").fields,
        "questions": [question.question_id for question in timed],
        "tasks": [question.task for question in timed],
        "seconds": clock.seconds,
        "tokens": clock.tokens,
        "cycles": clock.cycles,
        "compile_seconds": clock.compile_seconds,
        "stages": _stages(pair, settings, clock.method, asked, say),
      }
      for clock in clocks
    ],
  }


def _encode(pair, settings, questions):
  """Questions with their prompts, where there is room for an answer."""
  room = answers.positions(pair, settings)
  asked = []
  for question in questions:
    try:
      tokens = prompts.encode(
        settings.models.template, pair.tokenizer, [question.turns[0]]
      )
    except ValueError:  # which the answer's record says
      continue
    if 0 < len(tokens) < room:
      asked.append((question, tokens))
  return asked


def _options(settings, method) -> dict:
  """What `generate` is to do: to decode, and nothing else."""
  options = methods.options(settings, method)
  if not method.plain:
    options["panel"] = None
    # On a CPU a branch costs nothing, and to compile most of a short run.
    if jax.default_backend() != "cpu":
      options["among"] = ()
  return options


def _run(pair, settings, clock, asked, longest):
  """Seconds, tokens and cycles of an answer; seconds of compilation."""
  question, tokens = asked
  limit = answers.positions(pair, settings) - len(tokens)
  batch = batches.assemble(
    pair,
    clock.how,
    [tokens],
    [question.question_id * selecting.TURNS],
    1,
    longest,
    [min(settings.max_new_tokens, limit)],
  )
  caches = batches.caches(pair, batch)
  begin = time.perf_counter()
  records, _, compiling = generation.decode(clock.how, batch, caches)
  seconds = time.perf_counter() - begin - compiling
  return seconds, int(records.kept[0]), int(records.cycles[0]), compiling


def _stages(pair, settings, method, asked, say) -> dict | None:
  """Milliseconds a cycle by stage, the stages programs of their own."""
  trees = settings.timing.stages
  if method.tree not in trees and not (method.plain and trees):
    return None
  say(f"timing: stages of {method}")
  found = generation.profile(
    pair,
    [asked[0][1]],
    batch_size=1,
    progress=False,
    **_options(settings, method),
  )
  return found.milliseconds
