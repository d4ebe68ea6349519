"""Files of questions: one JSON object per line, docs/runs.md says of what."""

from __future__ import annotations

import collections
import dataclasses
import json
import os
import pathlib
import zlib
from collections.abc import Collection, Sequence

from tv_jax.edge.reading import BUNDLED
from tv_jax.runs.records import ALL

# Where Spec-Bench's questions are to be had.
SOURCE = (
  "https://raw.githubusercontent.com/hemingkx/Spec-Bench/main/data/spec_bench/"
  "question.jsonl"
)

# The bundled models' questions: of the six tasks, Python to go on with, for the
# template "raw", and more of the six tasks to tune trees on. And what people
# ask: of the same tasks, eight questions each, for models that know a language.
NAMED = ("minibench", "python", "tuning", "everyday")

# MT-Bench's own categories: together one task of Spec-Bench. There are ten
# questions of each, in this order, with numbers from 81.
MT_BENCH = (
  "writing",
  "roleplay",
  "reasoning",
  "math",
  "coding",
  "extraction",
  "stem",
  "humanities",
)

# Spec-Bench's other tasks, and how many questions of each category it has.
OTHERS = ("translation", "summarization", "qa", "math_reasoning", "rag")
SPEC_BENCH: dict[str, int] = {
  **dict.fromkeys(MT_BENCH, 10),
  **dict.fromkeys(OTHERS, 80),
}

# A question's turns draw from keys of their own: 32 bits hold both numbers.
TURNS = 16
_ROOM = 2**32 // TURNS


@dataclasses.dataclass(frozen=True, kw_only=True)
class Question:
  """One line of a questions file.

  Attributes:
    question_id: Its number or name, no other's in the file.
    category: As in the file.
    turns: What the user says, turn by turn.
    references: What to answer, turn by turn, where the file says so. In
      Spec-Bench's rag each is several texts, elsewhere one.
    mt_bench: Whether it is one of MT-Bench's, or made like these.
  """

  question_id: int | str
  category: str
  turns: tuple[str, ...]
  references: tuple[tuple[str, ...], ...]
  mt_bench: bool = False

  @property
  def task(self) -> str:
    """Returns the category, but one name for all of MT-Bench's."""
    return "mt_bench" if self.mt_bench else self.category


def load_questions(source: str | os.PathLike) -> tuple[Question, ...]:
  """Reads a file of questions.

  Args:
    source: Its path, or one of `NAMED`, the bundled ones. After "spec_bench:"
      the path of Spec-Bench's own file, which is checked to be whole.

  Raises:
    ValueError: The file and the line that is wrong, and how.
  """
  whole = str(source).startswith("spec_bench:")
  path = pathlib.Path(str(source).removeprefix("spec_bench:")).expanduser()
  if str(source) in NAMED:
    path = BUNDLED / f"{source}.jsonl"
  if not path.exists():
    remedy = f"give a path, or one of {', '.join(NAMED)}"
    if whole:
      remedy = f"download {SOURCE} to that place, or give another path"
    raise ValueError(f"questions {path} are not there: {remedy}")
  # Not splitlines, which breaks at characters that JSON has inside strings.
  lines = path.read_text(encoding="utf-8-sig").split("\n")
  rows = {}
  for number, line in enumerate(lines, 1):
    if line.strip():
      try:
        rows[number] = _question(json.loads(line), number, path.stem)
      except (ValueError, TypeError, KeyError, AttributeError) as error:
        raise ValueError(f"{path}, line {number}: {error}") from error
  if not rows:
    raise ValueError(f"{path} is empty")
  questions = _numbered(rows, path)
  counts = collections.Counter(question.category for question in questions)
  if whole and counts != SPEC_BENCH:
    raise ValueError(
      f"{path} is not Spec-Bench's question.jsonl: it has {dict(counts)}, not"
      f" {SPEC_BENCH}"
    )
  return questions


def _question(row: dict, number: int, category: str) -> Question:
  """Returns a line's question; what it lacks is its number and category."""
  row = {name: value for name, value in row.items() if value is not None}
  turns = row.get("turns") or row.get("prompt")
  turns = [turns] if isinstance(turns, str) else turns
  name = row.get("question_id", number)
  if not turns or not all(isinstance(turn, str) for turn in turns):
    raise ValueError("a question has a prompt, or turns, a list of texts")
  if not isinstance(name, int | str) or isinstance(name, bool) or name == "":
    raise ValueError(f"question_id={name!r}: give an integer or a text")
  references = row.get("reference", [])
  if not isinstance(references, list):
    raise ValueError(f"reference={references!r}: give a list, one for a turn")
  return Question(
    question_id=name,
    category=row.get("category") or category,
    turns=tuple(turns),
    references=tuple(
      (texts,) if isinstance(texts, str) else tuple(texts)
      for texts in references
    ),
  )


def _numbered(rows: dict[int, Question], path) -> tuple[Question, ...]:
  """Returns the questions under names of one kind, each of which is unique."""
  # So that they can be sorted: 5 is "5" beside names.
  texts = any(isinstance(row.question_id, str) for row in rows.values())
  mt_bench, questions = _holds_mt_bench(rows.values()), {}
  for number, question in rows.items():
    name = str(question.question_id) if texts else question.question_id
    if name in questions:
      raise ValueError(
        f"{path}, line {number}: question_id {name} is there twice"
      )
    questions[name] = dataclasses.replace(
      question,
      question_id=name,
      mt_bench=mt_bench and question.category in MT_BENCH,
    )
  return tuple(questions.values())


def _holds_mt_bench(questions: Collection[Question]) -> bool:
  """Returns whether categories that are called as MT-Bench's are its own.

  They are in a file like Spec-Bench's, and where their numbers are MT-Bench's.
  """
  categories = {question.category for question in questions}
  return {*OTHERS} <= categories <= {*SPEC_BENCH} or all(
    isinstance(question.question_id, int)
    and (question.question_id - 81) // 10 == MT_BENCH.index(question.category)
    for question in questions
    if question.category in MT_BENCH
  )


def read_questions(settings) -> tuple[Question, ...]:
  """Returns what a run asks: of its tasks so many questions each."""
  source = settings.questions
  questions = select(load_questions(source), settings.tasks)
  if settings.per_task:
    questions = limit(questions, settings.per_task)
  drawn: dict[int, int | str] = {}
  for question in questions:
    name = question.question_id
    if question.task == ALL:
      raise ValueError(f"{source}: a category is called {ALL!r}: rename it")
    if isinstance(name, int) and not 0 <= name < 2**63:
      raise ValueError(f"{source}: question_id {name} is not in [0, 2^63)")
    if (other := drawn.setdefault(number_of(name, 0), name)) != name:
      raise ValueError(
        f"{source}: question_id {name} would draw as {other} does: rename it"
      )
    if len(question.turns) > TURNS:
      raise ValueError(f"{source}: question {name} has more than {TURNS} turns")
  return questions


def number_of(question: int | str, turn: int) -> int:
  """Returns the number from which a turn draws.

  A name's is of its checksum, and so is that of a number that has no room.
  """
  if isinstance(question, str) or question >= _ROOM:
    question = zlib.crc32(str(question).encode()) % _ROOM
  return question * TURNS + turn


def select(
  questions: Sequence[Question], tasks: Sequence[str]
) -> tuple[Question, ...]:
  """Returns the questions of some tasks, or all if none is named."""
  # Names stand in one text with spaces between: those inside are underscores.
  names = ["_".join(question.task.split()) for question in questions]
  for task in tasks:
    if task not in names:
      raise ValueError(
        f"tasks: {task!r} is none of the questions':"
        f' {", ".join(dict.fromkeys(names))}: give some of these, or "" for all'
      )
  return tuple(
    question
    for question, name in zip(questions, names, strict=True)
    if not tasks or name in tasks
  )


def limit(questions: Sequence[Question], per_task: int) -> tuple[Question, ...]:
  """Returns the first questions of each task."""
  seen, chosen = collections.Counter(), []
  for question in questions:
    if seen[question.task] < per_task:
      chosen.append(question)
    seen[question.task] += 1
  return tuple(chosen)


def conversation(question: Question, answers: Sequence[str]) -> list[str]:
  """Returns the turns up to the one that comes after the model's `answers`."""
  turns = [question.turns[0]]
  for answer, turn in zip(answers, question.turns[1:], strict=False):
    turns += [answer, turn]
  return turns


def last_line(answer: str) -> str:
  """Returns the part of an answer that is scored.

  Its last line that is not empty, without its label (`Answer: `), without
  case, and without the punctuation around it.
  """
  lines = [line for line in answer.splitlines() if line.strip()]
  if not lines:
    return ""
  text = lines[-1].rsplit(": ", 1)[-1]
  return " ".join(text.lower().split()).strip(" .!?\"'")


def score(answer: str, reference: str) -> bool:
  """Returns whether an answer's last line is the reference: exact match."""
  return last_line(answer) == last_line(reference)
