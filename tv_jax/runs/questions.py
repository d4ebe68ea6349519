"""Files of questions: an object of JSON per line (docs/reproduce.md)."""

from __future__ import annotations

import collections
import dataclasses
import os
import pathlib
import zlib
from collections.abc import Sequence

from tv_jax.io import checks, reading
from tv_jax.io.errors import UserError
from tv_jax.runs.records import ALL

# The source of Spec-Bench's questions.
SOURCE = (
  "https://raw.githubusercontent.com/hemingkx/Spec-Bench/main/data/spec_bench/"
  "question.jsonl"
)

# The bundled files. For the bundled models: "minibench" has the six tasks,
# "python" is for the template "raw", and "tuning" has more of the six tasks, to
# tune trees on. "everyday" is for real language models.
NAMED = ("minibench", "python", "tuning", "everyday")

# MT-Bench's own categories, in the order of its questions: ten of each, with
# numbers from 81. Together they are one task of Spec-Bench.
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
SPEC_BENCH = dict.fromkeys(MT_BENCH, 10) | dict.fromkeys(OTHERS, 80)

# Maximum number of turns: question and turn share the 32 bits of a key.
TURNS = 16
_ROOM = 2**32 // TURNS


@dataclasses.dataclass(frozen=True, kw_only=True)
class Question:
  """One line of a questions file.

  Attributes:
    question_id: Its number or name, unique in the file.
    category: The category, as in the file.
    turns: The user's messages, turn by turn.
    references: Reference answers, turn by turn, if the file has any. A turn of
      Spec-Bench's rag has several texts, other turns have one.
    mt_bench: Whether the question belongs to MT-Bench or is made like it.
  """

  question_id: int | str
  category: str
  turns: tuple[str, ...]
  references: tuple[tuple[str, ...], ...]
  mt_bench: bool = False

  @property
  def task(self) -> str:
    """The category; all of MT-Bench's categories have the same task."""
    return "mt_bench" if self.mt_bench else self.category


def load_questions(source: str | os.PathLike) -> tuple[Question, ...]:
  """Reads a file of questions.

  Args:
    source: A path, or a bundled file's name in `NAMED`. After "spec_bench:" the
      path of Spec-Bench's file, which is checked to be whole.

  Raises:
    ValueError: A line is invalid; the error names the file and the line.
  """
  whole = str(source).startswith("spec_bench:")
  path = pathlib.Path(str(source).removeprefix("spec_bench:")).expanduser()
  if str(source) in NAMED:
    path = reading.BUNDLED / f"{source}.jsonl"
  if not path.exists():
    remedy = f"give a path, or one of {', '.join(NAMED)}"
    if whole:
      remedy = f"download {SOURCE} to that place, or give another path"
    raise UserError(f"questions {path} are not there: {remedy}")
  questions = {}
  for number, where, row in reading.json_lines(path):
    try:
      question = _question(row, number, path.stem)
      if question.question_id in questions:
        raise UserError(f"question_id {question.question_id} is there twice")
    except (ValueError, TypeError) as error:
      raise UserError(f"{where}: {error}") from error
    questions[question.question_id] = question
  if not questions:
    raise UserError(f"{path} is empty")
  if len({*map(type, questions)}) > 1:  # mixed types have no order
    raise UserError(f"{path}: question_id is a number here and a text there")
  counts = collections.Counter(x.category for x in questions.values())
  if whole and counts != SPEC_BENCH:
    raise UserError(
      f"{path} is not Spec-Bench's question.jsonl: it has {dict(counts)}, not"
      f" {SPEC_BENCH}"
    )
  return _mark_mt_bench([*questions.values()])


def _question(row: dict, number: int, category: str) -> Question:
  """Returns a line's question; defaults are the line's number and category."""
  row = {name: value for name, value in row.items() if value is not None}
  prompt = row.get("prompt")
  turns = row.get("turns") or ([prompt] if isinstance(prompt, str) else prompt)
  if not turns:
    raise UserError("give a prompt, or turns, a list of texts")
  references = row.get("reference", [])
  if not isinstance(references, list):
    raise UserError(f"reference={references!r}: give a list, one for a turn")
  return Question(
    question_id=row.get("question_id", number),
    category=row.get("category") or category,
    turns=checks.list_of(checks.text)(turns, "turns"),
    references=tuple(
      (texts,) if isinstance(texts, str) else tuple(texts)
      for texts in references
    ),
  )


def _mark_mt_bench(questions: Sequence[Question]) -> tuple[Question, ...]:
  """Marks MT-Bench's questions.

  Categories with MT-Bench's names count as MT-Bench in a file like
  Spec-Bench's, or if the questions have MT-Bench's numbers.
  """
  categories = {question.category for question in questions}
  mt_bench = {*OTHERS} <= categories <= {*SPEC_BENCH} or all(
    isinstance(question.question_id, int)
    and (question.question_id - 81) // 10 == MT_BENCH.index(question.category)
    for question in questions
    if question.category in MT_BENCH
  )
  return tuple(
    dataclasses.replace(x, mt_bench=mt_bench and x.category in MT_BENCH)
    for x in questions
  )


def read_questions(settings) -> tuple[Question, ...]:
  """Returns the questions of a run: the first `per_task` of each task."""
  source = settings.questions
  questions = select(load_questions(source), settings.tasks)
  if settings.per_task:
    questions = limit(questions, settings.per_task)
  for question in questions:
    if question.task == ALL:
      raise UserError(f"{source}: a category is called {ALL!r}: rename it")
    if len(question.turns) > TURNS:
      name = question.question_id
      raise UserError(f"{source}: question {name} has more than {TURNS} turns")
  return questions


def number_of(question: int | str, turn: int) -> int:
  """Returns the number that makes a turn's random key.

  Names, and numbers that are too large, are replaced by their checksums.
  """
  if isinstance(question, str) or question >= _ROOM:
    question = zlib.crc32(str(question).encode()) % _ROOM
  return question * TURNS + turn


def select(
  questions: Sequence[Question], tasks: Sequence[str]
) -> tuple[Question, ...]:
  """Returns the questions of these tasks; all questions if `tasks` is empty."""
  # A config lists tasks with spaces between, so spaces inside are underscores.
  names = ["_".join(question.task.split()) for question in questions]
  for task in tasks:
    if task not in names:
      raise UserError(
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
  """Returns the turns and answers so far, and the turn to answer next."""
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


def is_right(answer: str, reference: str) -> bool:
  """Returns whether an answer's last line is the reference: exact match."""
  return last_line(answer) == last_line(reference)
