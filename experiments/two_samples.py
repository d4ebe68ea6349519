"""Do two ways to decode write the same law? A test of whole outputs.

For each question there are some answers of either kind. If both kinds have one
law, it does not matter which answer is called which: the distance between the
kinds (the maximum mean discrepancy of their runs of one to three tokens) is
compared with what it is after the labels were shuffled within each question.
The chance of so large a distance is exact, whatever the kernel.
"""

from __future__ import annotations

import collections
from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np

# Runs of so many tokens, and no more, are what answers are compared by.
LONGEST = 3
SHUFFLES = 1999

# By question, the answers as tokens.
Sample = Mapping[int, Sequence[Sequence[int]]]


class Found(NamedTuple):
  """What came of a test.

  Attributes:
    distance: Between the kinds, mean over questions.
    chance: Of so large a distance, or a larger one, if both have one law.
    questions: How many there were.
    answers: Of both kinds together.
  """

  distance: float
  chance: float
  questions: int
  answers: int


def compare(ours: Sample, theirs: Sample, seed: int = 0) -> Found | None:
  """The test; None if no question has two answers of either kind."""
  both = [
    question
    for question in sorted(set(ours) & set(theirs))
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
  return Found(float(found[0]), float(chance), len(both), count)


def _distances(similar: np.ndarray, labels: np.ndarray) -> np.ndarray:
  """Squared distances [S] for labels [S, n], unbiased: below 0 by chance."""
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
  """[n, n] cosines of the counts of runs, mean over their lengths."""
  total = np.zeros((len(answers), len(answers)))
  for length in range(1, LONGEST + 1):
    counts = [_runs(answer, length) for answer in answers]
    place = {run: i for i, run in enumerate({r: 0 for c in counts for r in c})}
    rows = np.zeros((len(answers), max(len(place), 1)))
    for row, own in zip(rows, counts, strict=True):
      for run, times in own.items():
        row[place[run]] = times
    norm = np.linalg.norm(rows, axis=1)
    rows /= np.where(norm > 0, norm, 1)[:, None]
    total += rows @ rows.T
  return total / LONGEST


def _runs(answer, length) -> collections.Counter:
  """How often each run of `length` tokens is there."""
  ends = range(length, len(answer) + 1)
  return collections.Counter(tuple(answer[i - length : i]) for i in ends)
