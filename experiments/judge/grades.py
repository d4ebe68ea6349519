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
from tv_jax.edge import checks
from tv_jax.edge import disk as files
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
    """By name: with these a line begins."""
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
    "replies": checks.list_of(checks.fields({"text": checks.text})),
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
    """What `line` was made of; ValueError if it is none."""
    answer = Key.of(line)
    if told := checks.wrong(_FIELDS, line, most=3):
      raise ValueError(f"the grade of {answer}: {told}")
    rating = line["rating"]
    key = GradeKey(answer, *(line[name] for name in GradeKey._fields[1:]))
    return cls(key=key, rating=rating, replies=line["replies"])

  @property
  def line(self) -> dict:
    """As it is kept."""
    own = {"rating": self.rating, "replies": self.replies}
    return self.key.fields | own


def read(folder: str | os.PathLike) -> dict[GradeKey, Grade]:
  """The grades in a run's folder, whether or not a process is writing there.

  Raises:
    ValueError: The file is damaged.
    StoreError: It cannot be read.
  """
  path = pathlib.Path(folder) / FILE
  with files.explained(f"{path} cannot be read"):
    data = path.read_bytes() if path.exists() else b""
  return lines.parse(data, path, Grade.of)[0]


class Exam(NamedTuple):
  """The answers of a run that are to be graded.

  Attributes:
    folder: The run's.
    methods: The run's, in its order; none if it was not asked of these tasks.
    prompts: What to show a judge, by answer.
    failed: The answers that there are not: errors, or turns after these.
  """

  folder: pathlib.Path
  methods: tuple[Method, ...]
  prompts: dict[Key, list[dict]]
  failed: tuple[Key, ...]

  @classmethod
  def of(cls, unit: store.Unit, tasks: Sequence[str] = TASKS) -> Exam:
    """The answers of a run to the questions of some tasks.

    Raises:
      ValueError: The questions are not to be had any more.
    """
    if not any(answer.task in tasks for answer in unit.items):
      return cls(unit.folder, (), {}, ())
    # Here, as it imports jax, which a launcher of sweeps does without.
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
      if key.question not in questions:
        raise ValueError(
          f"{unit.folder}: question {key.question} is not in"
          f" {settings.questions}"
        )
      turns = [answers.get(key._replace(turn=i)) for i in range(key.turn + 1)]
      if any(one is None or one.error is not None for one in turns):
        failed.append(key)
      else:
        texts = [one.text for one in turns]
        chats[key] = prompts.messages(questions[key.question], texts)
    methods = tuple(runs.grid(settings))
    return cls(unit.folder, methods, chats, tuple(failed))

  def keys(self, judge: str, runs: int) -> Iterator[GradeKey]:
    """All grades, a whole run of the judge after another."""
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
    failed: Answers that there are not, and hence no grades.
    by_question: Its mean rating.
    less_plain: What it is above plain decoding's, question by question; None
      for that itself, or if there is nothing to compare with.
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
  """The mean ratings, by method.

  In each turn over the judge's runs first, then over turns, then over seeds,
  then over questions: what is missing or unparsed weighs on no other turn.

  Args:
    exams: Of runs that belong together: the same questions and models.
    judge: The model.
    runs: The judge's that count.

  Returns:
    A row for each method, in the runs' order.
  """
  rows: dict[Method, Row] = {}
  values: dict[Method, dict] = {}

  def row(method):
    pooled = method.pooled("seed")
    return rows.setdefault(pooled, Row(method=pooled))

  for exam in exams:
    for method in exam.methods:
      row(method)
  for exam in exams:
    there = read(exam.folder)
    for key in exam.keys(judge, runs):
      own, answer, grade = row(key.answer.method), key.answer, there.get(key)
      if grade is None:
        own.missing += 1
      elif grade.rating is None:
        own.unparsed += 1
      else:
        own.ratings += 1
        seeds = values.setdefault(own.method, {}).setdefault(
          answer.question, {}
        )
        turns = seeds.setdefault(answer.method.seed, {})
        turns.setdefault(answer.turn, []).append(grade.rating)
    for key in exam.failed:
      row(key.method).failed += 1
  for method, own in rows.items():
    own.by_question = {
      question: _mean(seeds)
      for question, seeds in values.get(method, {}).items()
    }
  for method, own in rows.items():
    plain = rows.get(method.undrafted.pooled("seed"))
    both = plain.by_question.keys() if plain and not method.plain else ()
    less = [
      x - plain.by_question[q] for q, x in own.by_question.items() if q in both
    ]
    if less:
      own.less_plain = Estimate.of(less)
  return tuple(rows.values())


def _mean(values) -> float:
  """The mean of what is in a list, or of the means of what is in a dict."""
  if isinstance(values, dict):
    values = [_mean(one) for one in values.values()]
  return float(np.mean(values))
