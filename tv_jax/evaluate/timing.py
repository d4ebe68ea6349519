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
from tv_jax.evaluate import answers, cells, environment, selecting
from tv_jax.evaluate.cells import Cell
from tv_jax.evaluate.settings import Settings, rules_on
from tv_jax.generation import batches
from tv_jax.pair import Pair
from tv_jax.prompts import Question


@dataclasses.dataclass
class Method:
  """One way to decode, and its times so far."""

  cell: Cell
  how: generation.Settings
  seconds: list[float]
  tokens: list[int]
  cycles: list[int]
  compile_seconds: float = 0.0


def measure(
  pair: Pair,
  settings: Settings,
  questions: Sequence[Question],
  say: Callable[[str], None],
) -> dict | None:
  """Times the cells of the first seed on some questions' first turns.

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
  methods = [
    _method(pair, settings, cell)
    for cell in cells.grid(settings)
    if cell.seed == settings.seeds[0]
  ]
  longest = max(len(tokens) for _, tokens in asked)
  for method in methods:
    say(f"timing: {method.cell} (compiling)")
    *_, method.compile_seconds = _run(pair, settings, method, asked[0], longest)
  say(f"timing: {len(methods)} methods in turn on {len(asked)} questions")
  for turn in range(settings.timing.rounds):
    for place, one in enumerate(asked):
      first = (turn + place) % len(methods)
      for method in (*methods[first:], *methods[:first]):
        seconds, kept, cycles, _ = _run(pair, settings, method, one, longest)
        method.seconds.append(seconds)
        method.tokens.append(kept)
        method.cycles.append(cycles)
  return {
    "environment": environment.describe(),
    "methods": [
      {
        "tree": method.cell.tree,
        "proposal": method.cell.proposal,
        "verifier": method.cell.verifier,
        "temperature": method.cell.temperature,
        "questions": [question.question_id for question, _ in asked]
        * settings.timing.rounds,
        "tasks": [question.task for question, _ in asked]
        * settings.timing.rounds,
        "seconds": method.seconds,
        "tokens": method.tokens,
        "cycles": method.cycles,
        "compile_seconds": method.compile_seconds,
        "stages": _stages(pair, settings, method, asked, say),
      }
      for method in methods
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


def _method(pair, settings, cell) -> Method:
  how = generation.resolve(pair, batch_size=1, **_options(settings, cell))
  return Method(cell=cell, how=how, seconds=[], tokens=[], cycles=[])


def _options(settings, cell) -> dict:
  """What `generate` is to do: to decode, and nothing else."""
  options = cell.options(settings)
  if cell.verifier != cells.PLAIN:
    options["panel"] = None
    # There a branch costs nothing, and to compile costs most of a short run.
    if jax.default_backend() == "cpu":
      rules = rules_on(settings, cell.tree, cell.proposal)
      options["among"] = rules
  return options


def _run(pair, settings, method, asked, longest):
  """Seconds, tokens and cycles of an answer; seconds of compilation."""
  question, tokens = asked
  limit = answers.positions(pair, settings) - len(tokens)
  batch = batches.assemble(
    pair,
    method.how,
    [tokens],
    [question.question_id * selecting.TURNS],
    1,
    longest,
    [min(settings.max_new_tokens, limit)],
  )
  caches = batches.caches(pair, batch)
  begin = time.perf_counter()
  records, _, compiling = generation.decode(method.how, batch, caches)
  seconds = time.perf_counter() - begin - compiling
  return seconds, int(records.kept[0]), int(records.cycles[0]), compiling


def _stages(pair, settings, method, asked, say) -> dict | None:
  """Milliseconds a cycle by stage, the stages programs of their own."""
  trees = settings.timing.stages
  plain = method.cell.verifier == cells.PLAIN
  if method.cell.tree not in trees and not (plain and trees):
    return None
  say(f"timing: stages of {method.cell}")
  found = generation.profile(
    pair,
    [asked[0][1]],
    batch_size=1,
    progress=False,
    **_options(settings, method.cell),
  )
  return found.milliseconds
