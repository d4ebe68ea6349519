"""Measures speed at batch 1, after warm-up, without panel and trace.

All methods take turns on each question, so that other load on the machine slows
all of them alike.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Sequence

import jax

from tv_jax.engine.decode import time_in_turn
from tv_jax.engine.pair import Pair
from tv_jax.io.progress import Progress
from tv_jax.runs import asking, environment
from tv_jax.runs import questions as questions_lib
from tv_jax.runs.questions import Question
from tv_jax.runs.records import AXES, Method
from tv_jax.runs.settings import Run, decoding, grid


def measure(
  pair: Pair,
  settings: Run,
  questions: Sequence[Question],
  progress: Progress,
) -> dict:
  """Times the methods of the first seed on first turns of each task.

  Returns the content of timing.json.
  """
  asked, prompts = [], []
  for question in questions_lib.limit(questions, settings.timing.per_task):
    with contextlib.suppress(ValueError):  # its answer has the error
      prompts.append(asking.next_prompt(pair, settings, question, []))
      asked.append(question)
  # On a CPU one program for all rules costs no speed, and compiles once. On
  # other devices each rule has a program, which is faster.
  shared = {} if jax.default_backend() == "cpu" else {"among": ()}
  methods = {
    method: decoding(settings, method, pair, 1, panel=None, **shared)
    for method in grid(settings)
    if prompts and method.seed == settings.seeds[0]
  }
  count = len(asked)
  progress(f"timing: {len(methods)} methods in turn on {count} questions")
  timed, compiling = time_in_turn(
    pair,
    methods,
    prompts,
    max((len(prompt.tokens) for prompt in prompts), default=1),
    rounds=settings.timing.rounds,
  )
  several = asked * settings.timing.rounds
  return {
    "environment": environment.describe(),
    "methods": [
      {
        **_without_seed(method),
        "questions": [question.question_id for question in several],
        "tasks": [question.task for question in several],
        "seconds": [answer.seconds for answer in timed[method]],
        "tokens": [len(answer.continuation.tokens) for answer in timed[method]],
        "cycles": [
          len(answer.continuation.accepted) for answer in timed[method]
        ],
        "compile_seconds": compiling[method],
      }
      for method in methods
    ],
  }


def covers(timing: dict | None, methods: Iterable[Method]) -> bool:
  """Returns whether all methods were timed; the grid may have grown since."""
  timed = (timing or {"methods": []})["methods"]
  known = [{name: x[name] for name in AXES if name in x} for x in timed]
  wanted = map(_without_seed, methods)
  return timing is not None and all(method in known for method in wanted)


def _without_seed(method: Method) -> dict:
  """Returns a method's other axes: the first seed is timed for all."""
  return {name: x for name, x in vars(method).items() if name != "seed"}
