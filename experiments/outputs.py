"""Compares whole outputs: does a rule write the same law as plain decoding?

Each question has some answers by the rule and some by plain decoding. If both
follow one law, it does not matter which answer is called which. The distance
between the two (the maximum mean discrepancy of their runs of one to three
tokens) is compared with what it is after the labels were shuffled within each
question. The p-value is exact, whatever the kernel.
"""

from __future__ import annotations

import collections
from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

import numpy as np

from tv_jax.runs.records import Answer, Method

LONGEST = 3  # runs of tokens that are compared
SHUFFLES = 1999

# By question, the answers as tokens.
Sample = Mapping[int | str, Sequence[Sequence[int]]]


class Difference(NamedTuple):
  """The result of a test.

  Attributes:
    distance: Between the two samples, averaged over questions.
    chance: The p-value.
    questions: How many there were.
    answers: How many both samples have.
  """

  distance: float
  chance: float
  questions: int
  answers: int


def test(answers: Iterable[Answer], method: Method) -> Difference | None:
  """Tests a method, its seeds pooled, against plain decoding.

  Draws of one seed are not independent: of the seeds in rising order every
  other one is the method's, and the rest are plain decoding's.
  """
  answers = [a for a in answers if a.error is None and a.turn == 0]
  seeds = sorted({int(answer.method.seed or 0) for answer in answers})

  def sample(kind, own) -> Sample:
    found = collections.defaultdict(list)
    for one in answers:
      if one.method.seed in own and one.method.pooled("seed") == kind:
        found[one.question].append(one.tokens)
    return found

  ours, theirs = sample(method, seeds[::2]), seeds[1::2]
  return compare(ours, sample(method.undrafted, theirs))


def compare(ours: Sample, theirs: Sample, seed: int = 0) -> Difference | None:
  """Tests two samples; None if no question has two answers in both."""
  both = [
    question
    for question in sorted({*ours} & {*theirs}, key=lambda x: (str(type(x)), x))
    if min(len(ours[question]), len(theirs[question])) > 1
  ]
  if not both:
    return None
  rng = np.random.default_rng(seed)
  found = np.zeros(1 + SHUFFLES)
  count = 0
  for question in both:
    answers = [*ours[question], *theirs[question]]
    label = np.arange(len(answers)) < len(ours[question])
    labels = [label, *(rng.permutation(label) for _ in range(SHUFFLES))]
    found += _distances(_similar(answers), np.array(labels))
    count += len(answers)
  found /= len(both)
  # Equal but for rounding counts as equal.
  chance = np.mean(found >= found[0] - 1e-12)
  return Difference(float(found[0]), float(chance), len(both), count)


def _distances(similar: np.ndarray, labels: np.ndarray) -> np.ndarray:
  """Computes squared distances [S] for labels [S, n], unbiased."""
  off = similar - np.diag(np.diag(similar))
  first, second = labels.astype(float), 1.0 - labels
  n, m = first.sum(axis=1), second.sum(axis=1)

  def between(a, b):
    return np.einsum("si,ij,sj->s", a, off, b)

  return (
    between(first, first) / (n * (n - 1))
    + between(second, second) / (m * (m - 1))
    - 2 * between(first, second) / (n * m)
  )


def _similar(answers: Sequence[Sequence[int]]) -> np.ndarray:
  """Computes cosines [n, n] of the counts of runs, mean over their lengths."""
  total = np.zeros((len(answers), len(answers)))
  for length in range(1, LONGEST + 1):
    counts = [
      collections.Counter(
        tuple(answer[i : i + length]) for i in range(len(answer) - length + 1)
      )
      for answer in answers
    ]
    place = {run: i for i, run in enumerate({r: 0 for c in counts for r in c})}
    rows = np.zeros((len(answers), max(len(place), 1)))
    for row, own in zip(rows, counts, strict=True):
      for run, times in own.items():
        row[place[run]] = times
    norm = np.linalg.norm(rows, axis=1)
    rows /= np.where(norm > 0, norm, 1)[:, None]
    total += rows @ rows.T
  return total / LONGEST
