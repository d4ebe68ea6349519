"""The questions of a run, refused if no answer could be kept of one."""

from tv_jax import prompts
from tv_jax.evaluate.settings import Run
from tv_jax.prompts import Question
from tv_jax.records import ALL

# A question's turns draw from keys of their own: 32 bits hold both numbers.
TURNS = 16
IDS = 2**32 // TURNS


def questions(settings: Run) -> tuple[Question, ...]:
  """The questions that are asked."""
  kind, colon, path = settings.questions.partition(":")
  if kind == "spec_bench" and colon:
    found = prompts.load_spec_bench(path)
  else:
    found = prompts.load_questions(settings.questions)
  there = list(dict.fromkeys(question.task for question in found))
  for task in settings.tasks:
    if task not in there:
      raise ValueError(
        f"tasks: {task!r} is none of the questions': {', '.join(there)}"
      )
  if settings.tasks:
    found = [question for question in found if question.task in settings.tasks]
  found = prompts.limit(found, per_task=settings.per_task or None)
  if faults := [*_wrong_questions(found)]:
    raise ValueError(f"{settings.questions}: {'; '.join(faults[:3])}")
  return found


def _wrong_questions(found):
  """What no answer can be kept of, or drawn for with keys of its own."""
  for task in dict.fromkeys(question.task for question in found):
    if task == ALL:
      yield f"category {task!r} is what tables call all of them: rename it"
    elif not task.isprintable():
      yield f"category {task!r} holds what cannot be printed: rename it"
  for question in found:
    name, turns = question.question_id, len(question.turns)
    if not 0 <= name < IDS:
      yield f"question_id {name} must be 0 or more, and below {IDS}: renumber"
    if turns > TURNS:
      yield f"question {name} has {turns} turns: {TURNS} at most can be asked"
