"""Speed, measured apart from everything else: batch 1, after warm-up.

All methods take turns on each question, so that a busy machine is busy for all
of them alike. Nothing else is computed: no panel, no trace.
"""

import contextlib
from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

import jax

from tv_jax.engine.config import DecodeConfig, decode_config
from tv_jax.engine.decode import Prompt
from tv_jax.engine.pair import Pair
from tv_jax.engine.profile import profile, time_in_turn
from tv_jax.runs import answers, asking, environment
from tv_jax.runs import questions as questions_lib
from tv_jax.runs.questions import Question
from tv_jax.runs.records import Method
from tv_jax.runs.settings import Run


class Plan(NamedTuple):
  """What is to be timed.

  Attributes:
    asked: Questions, with their tokens and how many more there may be.
    configs: How each method decodes.
    longest: The longest prompt.
  """

  asked: Sequence[tuple[Question, Sequence[int], int]]
  configs: Mapping[Method, DecodeConfig]
  longest: int


def plan(
  pair: Pair,
  settings: Run,
  questions: Sequence[Question],
  say: Callable[[str], None],
) -> Plan | None:
  """The methods of the first seed, and the first turns of some questions.

  Returns:
    What to time; None if there is nothing.
  """
  if not settings.timing.per_task:
    return None
  asked = []
  for question in questions_lib.limit(
    questions, per_task=settings.timing.per_task
  ):
    with contextlib.suppress(ValueError):  # which the answer's record says
      own = answers.encode(pair, settings, question.turns[:1])
      asked.append((question, *own))
  if not asked:
    say("timing: none, for no question leaves room for an answer")
    return None
  configs = {
    method: decode_config(pair, batch_size=1, **_options(settings, method))
    for method in asking.grid(settings)
    if method.seed == settings.seeds[0]
  }
  return Plan(asked, configs, max(len(tokens) for _, tokens, _ in asked))


def measure(
  pair: Pair,
  settings: Run,
  planned: Plan,
  say: Callable[[str], None],
  meet: Callable[[], None] = lambda: None,
) -> dict:
  """Times the methods; what is kept as a run's timing.

  `meet` is called between answers.
  """
  asked, configs, longest = planned
  prompts = [
    Prompt(tokens, asking.number(question.question_id, 0), limit)
    for question, tokens, limit in asked
  ]

  def before(method, warm):
    meet()
    if not warm:
      say(f"timing: {method} (compiling)")

  say(f"timing: {len(configs)} methods in turn on {len(asked)} questions")
  found, compiling = time_in_turn(
    pair,
    configs,
    prompts,
    longest,
    rounds=settings.timing.rounds,
    before=before,
  )
  timed = [question for question, *_ in asked] * settings.timing.rounds
  return {
    "environment": environment.describe(),
    "methods": [
      {
        **method.pooled("seed").fields,
        "questions": [question.question_id for question in timed],
        "tasks": [question.task for question in timed],
        "seconds": [answer.seconds for answer in found[method]],
        "tokens": [int(answer.records.kept[0]) for answer in found[method]],
        "cycles": [int(answer.records.cycles[0]) for answer in found[method]],
        "compile_seconds": compiling[method],
        "stages": _stages(pair, settings, method, asked, say),
      }
      for method in configs
    ],
  }


def _options(settings, method) -> dict:
  """Returns what `generate` is to do: to decode, and nothing else."""
  options = asking.options(settings, method)
  if not method.plain:
    options["panel"] = None
    # On a CPU a branch costs nothing, and to compile most of a short run.
    if jax.default_backend() != "cpu":
      options["among"] = ()
  return options


def _stages(pair, settings, method, asked, say) -> dict | None:
  """Milliseconds a cycle by stage, the stages programs of their own.

  Of the longest question that has room for a whole answer: what it is padded
  to is most likely what all were, and the whole program is there.
  """
  trees = settings.timing.stages
  if method.tree not in trees and not (method.plain and trees):
    return None
  say(f"timing: stages of {method}")
  _, tokens, limit = max(asked, key=lambda one: (one[2], len(one[1])))
  options = _options(settings, method) | {"max_new_tokens": limit}
  return profile(
    pair, [tokens], batch_size=1, progress=False, **options
  ).milliseconds
