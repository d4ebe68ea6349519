"""Files of questions, in Spec-Bench's format: one JSON object per line."""

import collections
import dataclasses
import os
import pathlib
from collections.abc import Sequence

from tv_jax import reading
from tv_jax.reading import BUNDLED, brief, shown

# Where Spec-Bench's questions are to be had.
SOURCE = (
  "https://raw.githubusercontent.com/hemingkx/Spec-Bench/main/data/spec_bench/"
  "question.jsonl"
)

# The bundled models' questions: of the six tasks, Python to go on with, for the
# template "raw", and more of the six tasks to tune trees on.
NAMED = ("minibench", "python", "tuning")

# MT-Bench's own categories: together one of Spec-Bench's six tasks.
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

# How many questions of each category are in Spec-Bench's question.jsonl.
SPEC_BENCH = dict.fromkeys(MT_BENCH, 10) | dict.fromkeys(
  ("translation", "summarization", "qa", "math_reasoning", "rag"), 80
)


@dataclasses.dataclass(frozen=True, kw_only=True)
class Question:
  """One line of a questions file.

  Attributes:
    question_id: Its number, no other's in the file.
    category: As in the file.
    turns: What the user says, turn by turn.
    references: What to answer, turn by turn, where the file says so. In
      Spec-Bench's rag each is several texts, elsewhere one.
  """

  question_id: int
  category: str
  turns: tuple[str, ...]
  references: tuple[tuple[str, ...], ...]

  @property
  def task(self) -> str:
    """The category, but one name for all of MT-Bench's."""
    return "mt_bench" if self.category in MT_BENCH else self.category


def load_questions(source) -> tuple[Question, ...]:
  """Reads a file in Spec-Bench's format, or one of `NAMED`, the bundled ones.

  Raises:
    ValueError: In one line, the file and the line that is wrong, and how.
  """
  path = _path(source)
  if str(source) in NAMED:
    path = BUNDLED / f"{source}.jsonl"
  try:
    # Not splitlines, which breaks at characters that JSON has inside strings.
    lines = reading.text(path).split("\n")
  except ValueError as error:
    raise ValueError(
      f"{error}: give the path of a questions file, or one of"
      f" {', '.join(NAMED)}"
    ) from None
  questions = {}
  for number, line in enumerate(lines, 1):
    if not line.strip():
      continue
    question = _question(line, f"{path}, line {number}")
    if question.question_id in questions:
      raise ValueError(
        f"{path}, line {number}: question_id {question.question_id} is there "
        "twice"
      )
    questions[question.question_id] = question
  if not questions:
    raise ValueError(f"{path}, line 1: the file is empty")
  return tuple(questions.values())


def _path(source) -> pathlib.Path:
  if not isinstance(source, str | os.PathLike):
    raise ValueError(f"{brief(source)} is no path of a questions file")
  return pathlib.Path(os.path.expanduser(source))


def _question(line: str, where: str) -> Question:
  """Reads one line; `where` is what errors call it."""
  try:
    row = reading.parse(line, where)
  except ValueError as error:
    raise ValueError(f"{error}: was the file cut short?") from None
  wanted = {"question_id": int, "category": str, "turns": list}
  if not isinstance(row, dict):
    raise ValueError(f"{where} is not an object with {', '.join(wanted)}")
  for name, kind in wanted.items():
    if name not in row:
      raise ValueError(f"{where} lacks {name}")
    if type(row[name]) is not kind or not (row[name] or kind is int):
      raise ValueError(
        f"{where}: {name}={brief(row[name])} must be of type"
        f" {kind.__name__}, and not empty"
      )
  if not _is_texts(row["turns"]):
    raise ValueError(
      f"{where}: turns={brief(row['turns'])} must hold strings only"
    )
  references = row.get("reference") or []
  if not isinstance(references, list) or not all(
    isinstance(one, str) or _is_texts(one) for one in references
  ):
    raise ValueError(
      f"{where}: reference={brief(references)} must be a list of strings"
    )
  return Question(
    question_id=row["question_id"],
    category=row["category"],
    turns=tuple(row["turns"]),
    references=tuple(
      (one,) if isinstance(one, str) else tuple(one) for one in references
    ),
  )


def _is_texts(value) -> bool:
  return isinstance(value, list) and all(isinstance(x, str) for x in value)


def load_spec_bench(path) -> tuple[Question, ...]:
  """Reads Spec-Bench's own question.jsonl, and checks that it is whole."""
  if not os.path.lexists(_path(path)):
    raise ValueError(
      f"{shown(path)} is not there: download {SOURCE} to that place, or give"
      " the path of one that you have, as spec_bench:PATH"
    )
  questions = load_questions(path)
  counts = collections.Counter(question.category for question in questions)
  faults = [
    f"{counts[name]} of {name}, not {SPEC_BENCH.get(name, 0)}"
    for name in (*SPEC_BENCH, *sorted(set(counts) - set(SPEC_BENCH)))
    if counts[name] != SPEC_BENCH.get(name, 0)
  ]
  if faults:
    raise ValueError(
      f"{path} is not Spec-Bench's question.jsonl: in its {len(questions)} "
      f"lines there are {', '.join(faults)}"
    )
  return questions


def limit(
  questions: Sequence[Question],
  *,
  first: int | None = None,
  last: int | None = None,
  per_task: int | None = None,
) -> tuple[Question, ...]:
  """The first questions, the last of these, and of those so many a task."""
  limits = {"first": first, "last": last, "per_task": per_task}
  for name, value in limits.items():
    if value is not None and value < 1:
      raise ValueError(f"{name}={value} must be 1 or more, or None for all")
  kept = list(questions[:first])
  if last is not None:
    kept = kept[-last:]
  if per_task is None:
    return tuple(kept)
  seen, chosen = collections.Counter(), []
  for question in kept:
    if seen[question.task] < per_task:
      chosen.append(question)
    seen[question.task] += 1
  return tuple(chosen)


def conversation(question: Question, answers: Sequence[str]) -> list[str]:
  """The turns up to the one that comes after `answers`, the model's own."""
  if len(answers) >= len(question.turns):
    raise ValueError(
      f"question {question.question_id} has {len(question.turns)} turns: none "
      f"is left after {len(answers)} answers"
    )
  turns = [question.turns[0]]
  for answer, turn in zip(answers, question.turns[1:], strict=False):
    turns += [answer, turn]
  return turns


def last_line(answer: str) -> str:
  """The part of an answer that is scored.

  Its last line that is not empty, without its label (`Answer: `), without
  case, and without the punctuation around it.
  """
  lines = [line for line in answer.splitlines() if line.strip()]
  if not lines:
    return ""
  text = lines[-1].rsplit(": ", 1)[-1]
  return " ".join(text.lower().split()).strip(" .!?\"'")


def score(answer: str, reference: str) -> bool:
  """Whether an answer's last line is the reference: exact match."""
  return last_line(answer) == last_line(reference)
