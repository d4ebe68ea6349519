"""What of a run is to be graded: its answers with the questions' own texts."""

from __future__ import annotations

from collections.abc import Sequence

from experiments.judge import prompts
from experiments.judge.grades import Exam
from tv_jax import evaluate, store
from tv_jax.evaluate import sources
from tv_jax.store import unit as unit_lib

TASKS = ("mt_bench",)  # the paper's


def exam(unit: store.Unit, tasks: Sequence[str] = TASKS) -> Exam:
  """The answers of a run to the questions of some tasks.

  Args:
    unit: The run.
    tasks: By Spec-Bench's names.

  Returns:
    Them; none if the run was not asked of these tasks.

  Raises:
    ValueError: The questions are not to be had any more.
  """
  if not any(answer.task in tasks for answer in unit.items):
    return Exam(unit.folder, (), {}, ())
  try:
    settings = evaluate.from_config(unit.config)
    asked = evaluate.questions(settings)
  except ValueError as error:
    raise ValueError(f"{unit.folder}: {error}") from error
  kept = unit_lib.load(unit.folder / unit_lib.SOURCES, dict) or {}
  if kept.get("questions", now := sources.of_questions(asked)) != now:
    raise ValueError(
      f"{unit.folder}: the questions in {settings.questions} are not those that"
      " were answered: put back what was there"
    )
  questions = {one.question_id: one for one in asked}
  answers = {answer.key: answer for answer in unit.items}
  chats, failed = {}, []
  for key in answers:
    if key.task not in tasks:
      continue
    if key.question not in questions:
      raise ValueError(
        f"{unit.folder}: question {key.question} is not in {settings.questions}"
      )
    turns = [answers.get(key._replace(turn=i)) for i in range(key.turn + 1)]
    if any(one is None or one.error is not None for one in turns):
      failed.append(key)
    else:
      texts = [one.text for one in turns]
      chats[key] = prompts.messages(questions[key.question], texts)
  methods = tuple(evaluate.grid(settings))
  return Exam(unit.folder, methods, chats, tuple(failed))
