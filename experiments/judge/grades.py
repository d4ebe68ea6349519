"""What is to be graded, the grades that are there, and their means.

Grades are lines of grades.jsonl in a run's folder. A grade belongs to an
answer, a judge, one of the judge's runs, and to what exactly the judge was
shown: where that has changed there is another grade.
"""

from __future__ import annotations

import dataclasses
import os
import pathlib
from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

import numpy as np

from experiments.judge import prompts
from tv_jax.edge import checks, disk
from tv_jax.engine.estimates import Estimate
from tv_jax.runs import store
from tv_jax.runs.records import Key, Method
from tv_jax.runs.store import lines
from tv_jax.runs.store import unit as unit_lib

FILE = "grades.jsonl"
RUNS = 3  # the paper's, as are these tasks
TASKS = ("mt_bench",)


class GradeKey(NamedTuple):
  """Which grade it is.

  Attributes:
    answer: Of which answer.
    judge: The model that gave it.
    run: Of the judge's, from 0.
    prompt: The digest of what the judge was shown.
  """

  answer: Key
  judge: str
  run: int
  prompt: str

  @property
  def fields(self) -> dict:
    """The beginning of its line, by name."""
    own = {"judge": self.judge, "run": self.run, "prompt": self.prompt}
    return self.answer.fields | own

  def __str__(self) -> str:
    """For messages."""
    return f"grade of {self.answer}, run {self.run} of {self.judge}"


_FIELDS = checks.fields(
  {
    "judge": checks.text,
    "run": checks.integer(),
    "prompt": checks.text,
    "rating": checks.optional(checks.number(prompts.LEAST, prompts.MOST)),
    "replies": checks.list_of(
      checks.fields(
        {"text": checks.text}, finish_reason=checks.text, model=checks.text
      )
    ),
  }
)


@dataclasses.dataclass(frozen=True, kw_only=True)
class Grade:
  """A grade: a line.

  Attributes:
    key: Which.
    rating: From 1 to 10; None if there is none in any reply.
    replies: All that the judge said, as it came: the last one counts, and those
      before it held no rating.
  """

  key: GradeKey
  rating: float | None
  replies: Sequence[Mapping]

  @classmethod
  def of(cls, line: dict) -> Grade:
    """Reads a line; ValueError if it is none."""
    answer = Key.of(line)
    found = checks.read(_FIELDS, line, f"the grade of {answer}")
    key = GradeKey(answer, found["judge"], found["run"], found["prompt"])
    return cls(key=key, rating=found["rating"], replies=found["replies"])

  @property
  def line(self) -> dict:
    """As it is kept."""
    return self.key.fields | {"rating": self.rating, "replies": self.replies}


def read(folder: str | os.PathLike) -> dict[GradeKey, Grade]:
  """Reads the grades in a run's folder, whether or not a process writes there.

  Raises:
    ValueError: The file is damaged.
    StoreError: It cannot be read.
  """
  path = pathlib.Path(folder) / FILE
  with disk.explained(f"{path} cannot be read"):
    data = path.read_bytes() if path.exists() else b""
  return lines.parse(data, path, Grade.of)[0]


class Exam(NamedTuple):
  """The answers of a run that are to be graded.

  Attributes:
    folder: The run's.
    methods: The run's, in its order; none if it was not asked of these tasks.
    prompts: What to show a judge, by answer.
    failed: The answers that are not there: errors, or turns after these.
  """

  folder: pathlib.Path
  methods: tuple[Method, ...]
  prompts: dict[Key, list[dict]]
  failed: tuple[Key, ...]

  @classmethod
  def of(cls, unit: store.Unit, tasks: Sequence[str] = TASKS) -> Exam:
    """Returns the answers of a run to the questions of some tasks.

    Raises:
      ValueError: The questions are not there any more, or others are.
    """
    if not any(answer.task in tasks for answer in unit.items):
      return cls(unit.folder, (), {}, ())
    # Here, as it imports jax, which a command that reads flags does without.
    from tv_jax import runs
    from tv_jax.runs import sources

    try:
      settings = runs.from_config(unit.config)
      asked = runs.read_questions(settings)
    except ValueError as error:
      raise ValueError(f"{unit.folder}: {error}") from error
    kept = unit_lib.load(unit.folder / unit_lib.SOURCES, dict) or {}
    if kept.get("questions", now := sources.of_questions(asked)) != now:
      raise ValueError(
        f"{unit.folder}: the questions in {settings.questions} are not those"
        " that were answered: put back what was there"
      )
    questions = {one.question_id: one for one in asked}
    answers = {answer.key: answer for answer in unit.items}
    chats, failed = {}, []
    for key in answers:
      if key.task not in tasks:
        continue
      turns = [answers.get(key._replace(turn=i)) for i in range(key.turn + 1)]
      texts = [one.text for one in turns if one and one.error is None]
      if len(texts) < len(turns):
        failed.append(key)
      elif key.question not in questions:
        raise ValueError(
          f"{unit.folder}: question {key.question} is not in"
          f" {settings.questions}"
        )
      else:
        chats[key] = prompts.messages(questions[key.question], texts)
    methods = tuple(runs.grid(settings))
    return cls(unit.folder, methods, chats, tuple(failed))

  def keys(self, judge: str, runs: int) -> Iterator[GradeKey]:
    """Yields all grades, a whole run of the judge after another."""
    digests = {key: prompts.digest(chat) for key, chat in self.prompts.items()}
    for run in range(runs):
      for key, digest in digests.items():
        yield GradeKey(key, judge, run, digest)


@dataclasses.dataclass(kw_only=True)
class Row:
  """What a judge thinks of one method.

  Attributes:
    method: Its seeds pooled.
    ratings: How many grades hold one.
    unparsed: Grades that hold none: they are in no mean.
    missing: Grades that have not been asked for, or had no reply.
    failed: Answers that are not there, and hence no grades.
    by_question: Its mean rating.
    less_plain: What it is above plain decoding's, question by question; None
      for plain decoding, or if there is nothing to compare with.
  """

  method: Method
  ratings: int = 0
  unparsed: int = 0
  missing: int = 0
  failed: int = 0
  by_question: dict[int | str, float] = dataclasses.field(default_factory=dict)
  less_plain: Estimate | None = None

  @property
  def rating(self) -> Estimate:
    """The mean over questions, and its error over these."""
    return Estimate.of([*self.by_question.values()])


def table(
  exams: Sequence[Exam], judge: str, runs: int = RUNS
) -> tuple[Row, ...]:
  """Returns a row of mean ratings for each method, in the runs' order.

  In each turn the mean is over the judge's runs first, then over turns, then
  over seeds, then over questions: what is missing or unparsed weighs on no
  other turn.

  Args:
    exams: Of runs that belong together: the same questions and models.
    judge: The model.
    runs: The judge's that count.
  """
  methods = [one.pooled("seed") for exam in exams for one in exam.methods]
  rows = {method: Row(method=method) for method in methods}
  values: dict[Method, dict] = {method: {} for method in rows}
  for exam in exams:
    there = read(exam.folder)
    for key in exam.keys(judge, runs):
      answer, grade = key.answer, there.get(key)
      own = rows[answer.method.pooled("seed")]
      if grade is None:
        own.missing += 1
      elif grade.rating is None:
        own.unparsed += 1
      else:
        own.ratings += 1
        seeds = values[own.method].setdefault(answer.question, {})
        turns = seeds.setdefault(answer.method.seed, {})
        turns.setdefault(answer.turn, []).append(grade.rating)
    for key in exam.failed:
      rows[key.method.pooled("seed")].failed += 1
  for method, own in rows.items():
    own.by_question = {q: _mean(seeds) for q, seeds in values[method].items()}
  for method, own in rows.items():
    plain = rows.get(method.undrafted)
    if plain and not method.plain:
      theirs = plain.by_question
      less = [x - theirs[q] for q, x in own.by_question.items() if q in theirs]
      own.less_plain = Estimate.of(less) if less else None
  return tuple(rows.values())


def _mean(values) -> float:
  """Returns the mean of a list, or of the means of what is in a dict."""
  if isinstance(values, dict):
    values = [_mean(one) for one in values.values()]
  return float(np.mean(values))
