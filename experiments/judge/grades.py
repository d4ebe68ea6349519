"""What is to be graded, and the means of the grades that are there."""

from __future__ import annotations

import pathlib
from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np

from experiments.judge import kept, prompts
from experiments.judge.kept import Grade, GradeKey
from tv_jax.metrics import Estimate
from tv_jax.records import Key, Method

RUNS = 3  # the paper's


class Exam(NamedTuple):
  """The answers of a run that are to be graded.

  Attributes:
    folder: The run's.
    methods: The run's, in its order.
    prompts: What to show a judge, by answer.
    failed: The answers that there are not: errors, or turns after these.
  """

  folder: pathlib.Path
  methods: tuple[Method, ...]
  prompts: dict[Key, list[dict]]
  failed: tuple[Key, ...]

  def keys(self, judge: str, runs: int) -> Iterator[GradeKey]:
    """All grades, a whole run of the judge after another."""
    digests = {key: prompts.digest(chat) for key, chat in self.prompts.items()}
    for run in range(runs):
      for key, digest in digests.items():
        yield GradeKey(key, judge, run, digest)


class Row(NamedTuple):
  """What a judge thinks of one method.

  Attributes:
    method: Its seeds pooled.
    rating: The mean over questions, and its error over these.
    less_plain: What it is above plain decoding's, question by question; None
      for that itself, or if there is nothing to compare with.
    ratings: How many grades hold one.
    unparsed: Grades that hold none: they are in no mean.
    missing: Grades that have not been asked for, or had no reply.
    failed: Answers that there are not, and hence no grades.
    by_question: Its mean rating.
  """

  method: Method
  rating: Estimate
  less_plain: Estimate | None
  ratings: int
  unparsed: int
  missing: int
  failed: int
  by_question: dict[int | str, float]


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
  found: dict[Method, _Pile] = {
    method.pooled("seed"): _Pile() for exam in exams for method in exam.methods
  }
  for exam in exams:
    there = kept.read(exam.folder)
    for key in exam.keys(judge, runs):
      pile = found.setdefault(key.answer.method.pooled("seed"), _Pile())
      pile.add(key.answer, there.get(key))
    for key in exam.failed:
      found.setdefault(key.method.pooled("seed"), _Pile()).failed += 1
  means = {method: pile.by_question() for method, pile in found.items()}
  return tuple(
    Row(
      method=method,
      rating=Estimate.of([*means[method].values()]),
      less_plain=_less(means[method], means.get(_plain(method), {}), method),
      ratings=pile.ratings,
      unparsed=pile.unparsed,
      missing=pile.missing,
      failed=pile.failed,
      by_question=means[method],
    )
    for method, pile in found.items()
  )


class _Pile:
  """The grades of one method, as they are counted."""

  def __init__(self):
    self.ratings = self.unparsed = self.missing = self.failed = 0
    self.values: dict[int | str, dict] = {}

  def add(self, answer: Key, grade: Grade | None) -> None:
    if grade is None:
      self.missing += 1
    elif grade.rating is None:
      self.unparsed += 1
    else:
      self.ratings += 1
      seeds = self.values.setdefault(answer.question, {})
      turns = seeds.setdefault(answer.method.seed, {})
      turns.setdefault(answer.turn, []).append(grade.rating)

  def by_question(self) -> dict[int | str, float]:
    return {
      question: _mean(
        _mean(_mean(ratings) for ratings in turns.values())
        for turns in seeds.values()
      )
      for question, seeds in sorted(self.values.items())
    }


def _mean(values) -> float:
  return float(np.mean([*values]))


def _plain(method: Method) -> Method:
  return method.undrafted.pooled("seed")


def _less(own, plain, method) -> Estimate | None:
  """The difference on the questions that both have ratings of."""
  both = own.keys() & plain.keys()
  if method.plain or not both:
    return None
  return Estimate.of([own[one] - plain[one] for one in sorted(both)])
