"""Measures speed at batch 1, after warm-up, without a panel.

All methods take turns on each question, so that other load on the machine slows
all of them alike.
"""

from __future__ import annotations

import contextlib
from collections.abc import Hashable, Iterable, Mapping, Sequence
from typing import NamedTuple, TypeVar

import jax

from tv_jax.engine.config import DecodeConfig
from tv_jax.engine.decode import Batch, Prompt, decode
from tv_jax.engine.pair import Pair
from tv_jax.engine.state import Continuation
from tv_jax.io.progress import Progress
from tv_jax.runs import asking, environment
from tv_jax.runs import questions as questions_lib
from tv_jax.runs.questions import Question
from tv_jax.runs.records import AXES, Method
from tv_jax.runs.settings import Run, decoding, grid

Name = TypeVar("Name", bound=Hashable)


class Timed(NamedTuple):
  """One answer with its times in seconds, compilation excluded."""

  prefill: float
  cycles: float
  continuation: Continuation

  @property
  def seconds(self) -> float:
    """Time of the whole answer."""
    return self.prefill + self.cycles


def time_in_turn(
  pair: Pair,
  configs: Mapping[Name, DecodeConfig],
  prompts: Sequence[Prompt],
) -> tuple[dict[Name, list[Timed]], dict[Name, float]]:
  """Times several configs, one prompt at a time.

  All configs answer a prompt before the next prompt is asked, so that other
  work on the machine slows all of them alike.

  Args:
    pair: The target and its draft.
    configs: The decoding options, by name.
    prompts: The prompts to continue.

  Returns:
    The answers, and the seconds of compilation, by name.
  """
  # All batches are kept, so that each config compiles its programs only once,
  # even if there are more configs than the cache of programs holds.
  longest = max((len(prompt.tokens) for prompt in prompts), default=1)
  batches = {
    name: Batch(pair, config, 1, longest) for name, config in configs.items()
  }

  def answer(name, prompt):
    spent = batches[name].seconds
    spent["prefill"] = spent["cycles"] = 0.0
    (own,) = decode(batches[name], [prompt])
    return Timed(spent["prefill"], spent["cycles"], own)

  for name in configs:
    answer(name, prompts[0])  # untimed: it compiles and warms up
  compiling = {
    name: batch.seconds["compile"] for name, batch in batches.items()
  }
  names, answers = [*configs], {name: [] for name in configs}
  for place, prompt in enumerate(prompts):
    first = place % len(names)
    for name in (*names[first:], *names[:first]):
      answers[name].append(answer(name, prompt))
  return answers, compiling


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
  timed, compiling = time_in_turn(pair, methods, prompts)
  return {
    "environment": environment.describe(),
    "methods": [
      {
        **_without_seed(method),
        "questions": [question.question_id for question in asked],
        "tasks": [question.task for question in asked],
        "seconds": [answer.seconds for answer in timed[method]],
        "tokens": [len(answer.continuation.tokens) for answer in timed[method]],
        "cycles": [len(answer.continuation.gained) for answer in timed[method]],
        "compile_seconds": compiling[method],
      }
      for method in methods
    ],
  }


def covers(timing: dict | None, methods: Iterable[Method]) -> bool:
  """Returns whether all methods were timed; the grid may have grown since."""
  if timing is None:
    return False
  timed = [{k: x[k] for k in AXES if k in x} for x in timing["methods"]]
  return all(_without_seed(method) in timed for method in methods)


def _without_seed(method: Method) -> dict:
  """Returns a method's other axes: the first seed is timed for all."""
  return {name: x for name, x in vars(method).items() if name != "seed"}
