"""What a run asks: its questions, and the methods that are to answer them."""

from __future__ import annotations

import itertools
import zlib
from typing import TYPE_CHECKING

from tv_jax.edge.reading import brief
from tv_jax.runs import questions as questions_lib
from tv_jax.runs.questions import Question
from tv_jax.runs.records import ALL, AXES, NONE, PLAIN, Method

if TYPE_CHECKING:
  from tv_jax.runs.settings import Run

# A question's turns draw from keys of their own: 32 bits hold both numbers.
TURNS = 16
_OWN = 2**32 // TURNS
# Larger numbers are no integers to NumPy, which tells questions apart.
_MOST = 2**63 - 1


def read_questions(settings: Run) -> tuple[Question, ...]:
  """Returns the questions that are asked."""
  kind, colon, path = settings.questions.partition(":")
  if kind == "spec_bench" and colon:
    found = questions_lib.load_spec_bench(path)
  else:
    found = questions_lib.load_questions(settings.questions)
  found = questions_lib.select(found, settings.tasks)
  found = questions_lib.limit(found, per_task=settings.per_task or None)
  if faults := [*_wrong_questions(found)]:
    raise ValueError(f"{settings.questions}: {'; '.join(faults[:3])}")
  return found


def _wrong_questions(found):
  """Yields what no answer can be kept of, or drawn for with keys of its own."""
  for task in dict.fromkeys(question.task for question in found):
    if task == ALL:
      yield f"category {task!r} is what tables call all of them: rename it"
    elif not task.isprintable():
      yield f"category {task!r} holds what cannot be printed: rename it"
  drawn: dict[int, int | str] = {}
  for question in found:
    name, turns = question.question_id, len(question.turns)
    if isinstance(name, str) and not name.isprintable():
      yield f"question_id {name!r} holds what cannot be printed: rename it"
    elif isinstance(name, int) and not 0 <= name <= _MOST:
      yield f"question_id {brief(name)} must be from 0 to {_MOST}: renumber"
    elif (other := drawn.setdefault(number(name, 0), name)) != name:
      yield f"question_id {name} would draw as {other} does: rename one of them"
    if turns > TURNS:
      yield f"question {name} has {turns} turns: {TURNS} at most can be asked"


def number(question: int | str, turn: int) -> int:
  """Returns the number from which a turn draws.

  A name's is of its checksum, and so is that of a number that has no room.
  """
  if isinstance(question, str) or question >= _OWN:
    question = zlib.crc32(str(question).encode()) % _OWN
  return question * TURNS + turn


def grid(settings: Run) -> list[Method]:
  """Returns all methods; those that share a program stand together."""
  places = [(NONE, NONE, PLAIN)] if settings.plain else []
  places += [
    (tree, proposal, rule)
    for (tree, proposal), rules in settings.rules.items()
    for rule in rules
  ]
  drafted = ("tree", "proposal", "verifier")
  # A config names an axis in the plural.
  others = [name for name in AXES if name not in drafted]
  values = [getattr(settings, f"{name}s") for name in others]
  return [
    Method.of(dict(zip((*drafted, *others), (*place, *point), strict=True)))
    for place, point in itertools.product(places, itertools.product(*values))
  ]


def options(settings: Run, method: Method) -> dict:
  """Returns what `generate` is to do; batch size, panel and trace aside."""
  own = {**vars(method)}
  if method.plain:
    del own["tree"], own["proposal"]
    own["verifier"] = None
  else:
    own["among"] = settings.rules[method.tree, method.proposal]
  return {
    "draft_temperature": settings.draft_temperature or None,
    "draft_stop": 0.0 if method.plain else settings.draft_stop,
    "top_k": settings.top_k,
    "top_p": settings.top_p,
    "max_new_tokens": settings.max_new_tokens,
  } | own
