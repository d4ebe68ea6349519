"""Files of questions: one JSON object per line, docs/runs.md says of what."""

import collections
import dataclasses
import os
import pathlib
from collections.abc import Collection, Sequence

from tv_jax.edge import checks, reading
from tv_jax.edge.reading import BUNDLED, shown

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


_TEXTS = checks.list_of(checks.text)
_NEEDED = {
  "question_id": checks.either(checks.integer(), checks.text),
  "category": checks.text,
  "turns": _TEXTS,
}
_ROW = checks.fields(
  _NEEDED, reference=checks.list_of(checks.either(checks.text, _TEXTS))
)


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


def load_questions(source) -> tuple[Question, ...]:
  """Reads a file of questions, or one of `NAMED`, the bundled ones.

  Raises:
    ValueError: In one line, the file and the line that is wrong, and how.
  """
  path = pathlib.Path(os.path.expanduser(source))
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
  found = {
    number: _question(line, f"{path}, line {number}", number, path.stem)
    for number, line in enumerate(lines, 1)
    if line.strip()
  }
  if not found:
    raise ValueError(f"{path}, line 1: the file is empty")
  # Of one kind, so that they can be sorted: 5 is "5" beside names.
  kind = str if any(type(x.question_id) is str for x in found.values()) else int
  mt_bench = _holds_mt_bench(found.values())
  questions = {}
  for number, question in found.items():
    name = kind(question.question_id)
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
    type(one.question_id) is int
    and (one.question_id - 81) // 10 == MT_BENCH.index(one.category)
    for one in questions
    if one.category in MT_BENCH
  )


def _question(line: str, where: str, number: int, category: str) -> Question:
  """Reads one line.

  Args:
    line: The line.
    where: What errors call it.
    number: Its question_id, if it has none.
    category: Likewise.
  """
  try:
    row = reading.parse(line, where)
  except ValueError as error:
    raise ValueError(f"{error}: was the file cut short?") from None
  if isinstance(row, dict):
    given = {name: value for name, value in row.items() if value is not None}
    row = {"question_id": number, "category": category} | given
    if "turns" not in row and "prompt" in row:
      prompt = row["prompt"]
      row["turns"] = [prompt] if isinstance(prompt, str) else prompt
  told = checks.wrong(_ROW, row)
  empty = () if told else [name for name in _NEEDED if row[name] in ("", [])]
  if told or empty:
    told = told or f"{' and '.join(empty)} must not be empty"
    raise ValueError(
      f"{where}: {told} (a question has a prompt, a text, or turns, a list of"
      " texts)"
    )
  references = row.get("reference", [])
  return Question(
    question_id=row["question_id"],
    category=row["category"],
    turns=tuple(row["turns"]),
    references=tuple(
      (one,) if isinstance(one, str) else tuple(one) for one in references
    ),
  )


def load_spec_bench(path) -> tuple[Question, ...]:
  """Reads Spec-Bench's own question.jsonl, and checks that it is whole."""
  if not os.path.lexists(os.path.expanduser(path)):
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


def select(
  questions: Sequence[Question], tasks: Sequence[str]
) -> tuple[Question, ...]:
  """Returns the questions of some tasks, or all if none is named.

  Raises:
    ValueError: A task has no questions.
  """
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


def limit(
  questions: Sequence[Question],
  *,
  first: int | None = None,
  last: int | None = None,
  per_task: int | None = None,
) -> tuple[Question, ...]:
  """Returns the first, the last of these, and so many of each task."""
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
