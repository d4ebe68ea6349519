"""Means of acceptance lengths over items and over tokens, and their errors.

An item is a question with all its turns and seeds. The cycles of an item share
a context and are not independent, so errors are clustered by item.
"""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import NamedTuple

import numpy as np

from tv_jax.engine.results import Estimate
from tv_jax.runs.records import Answer


@dataclasses.dataclass(frozen=True, kw_only=True, eq=False)
class Cell:
  """The results of one decoding method on some items.

  Attributes:
    by_item: Tokens per cycle, the paper's measure: the mean over a question's
      cycles in each seed, then over seeds, then over questions.
    by_token: Tokens per cycle, over all cycles: 1 + accepted / drafts, as
      engines print it. Spec-Bench's measure.
    reached: The share of cycles that accepted d drafted tokens or more, for
      d = 1, 2, .. up to the most that any cycle accepted.
    conditional: The same share among the cycles that accepted d - 1 or more.
    drafted: Nodes drafted per cycle; None for plain decoding.
    expected: The rule's expected tokens per cycle, given each draft.
    gain: `expected` minus the baseline's expected length on the same drafts.
    relative: `gain` in percent of the baseline's expected length.
    check: Realised minus expected length, by cycle: 0 within its error. Given
      the past, its mean is 0 in each cycle, so cycles need no clustering here.
    exact_match: The share of right answers, over items; None without
      references.
    items: Number of items.
    cycles: Number of cycles.
    faults: Cycles with a NaN, an invalid decision or an invalid draft.
    failed: Answers that are missing because of an error.
  """

  by_item: Estimate
  by_token: Estimate
  reached: tuple[Estimate, ...]
  conditional: tuple[Estimate, ...]
  drafted: Estimate | None
  expected: Estimate | None
  gain: Estimate | None
  relative: Estimate | None
  check: Estimate | None
  exact_match: Estimate | None
  items: int
  cycles: int
  faults: int
  failed: int


def cell(answers: Iterable[Answer], baseline: str | None = None) -> Cell:
  """Returns the cell of a method's answers, with its seeds pooled.

  Args:
    answers: The method's answers.
    baseline: The rule to compare with on the same drafts.
  """
  answers = list(answers)
  sound = _sound(answers)
  item = np.array(
    [answer.question for answer in sound for _ in answer.accepted]
  )
  realised = np.array([n for answer in sound for n in answer.accepted])
  expected = _expected(sound, lambda answer: answer.method.verifier)
  base = _expected(sound, lambda _: baseline)
  if expected is None or sound[0].method.verifier == baseline:
    base = None
  by_item = [*_by_item(sound, lambda answer: answer.accepted).values()]
  shares = [*right(answers).values()]
  deep = [realised > d for d in range(max(realised, default=1))]
  drafted = [n for answer in sound for n in answer.drafted or ()]
  return Cell(
    by_item=Estimate.of(by_item),
    by_token=Estimate.clustered(realised, item),
    reached=tuple(Estimate.clustered(here, item) for here in deep[1:]),
    conditional=tuple(
      Estimate.clustered(here[above], item[above])
      for above, here in itertools.pairwise(deep)
    ),
    drafted=Estimate.clustered(drafted, item) if drafted else None,
    expected=None if expected is None else Estimate.clustered(expected, item),
    gain=None if base is None else Estimate.clustered(expected - base, item),
    relative=None if base is None else relative(expected, base, item),
    check=None if expected is None else Estimate.of(realised - expected),
    exact_match=Estimate.of(shares) if shares else None,
    items=len(by_item),
    cycles=len(realised),
    faults=sum(answer.faults for answer in sound),
    failed=len(answers) - len(sound),
  )


def relative(lengths, base, item) -> Estimate:
  """Returns how much longer `lengths` is than `base`, in percent of the means.

  Args:
    lengths: An array of lengths.
    base: An array of lengths to compare with.
    item: The item of each value, by which the error is clustered.
  """
  return _percent(quotient(item, [lengths], [base]))


def quotient(item, over, under) -> Estimate:
  """Returns the ratio of two products of sums, `over` divided by `under`.

  Args:
    item: The item of each value, by which the error is clustered.
    over: Arrays; the numerator is the product of their sums.
    under: As many arrays; the denominator is the product of their sums.

  Returns:
    The quotient. Its error is the delta method's: all sums vary together, by
    item.
  """
  over, under = (np.array([*arrays], np.float64) for arrays in (over, under))
  sums, below = over.sum(1), under.sum(1)
  # The derivative of the quotient with respect to each sum.
  each = [np.delete(sums, k).prod() / below.prod() for k in range(len(sums))]
  value = float(sums.prod() / below.prod())
  around = each @ over - (value / below) @ under
  result = Estimate.clustered(around * around.size, item)
  return dataclasses.replace(result, mean=value)


def net(longer: Estimate, slower: Estimate) -> Estimate:
  """Returns the gain in tokens per second, in percent.

  Args:
    longer: The gain in length of a cycle, in percent.
    slower: The extra time of a cycle, in percent, measured separately.
  """
  length, time = 1 + longer.mean / 100, 1 + slower.mean / 100
  error = np.hypot(longer.error, slower.error * length / time) / time
  mean = 100 * (length / time - 1)
  return Estimate(mean=mean, error=float(error), n=min(longer.n, slower.n))


def _percent(value: Estimate) -> Estimate:
  """Returns a quotient minus 1, in percent."""
  mean, error = 100 * (value.mean - 1), 100 * value.error
  return Estimate(mean=mean, error=error, n=value.n)


class Times(NamedTuple):
  """Times of a method, answer by answer. A question may occur several times.

  All methods of a run are timed on the same questions in the same order, and
  only times of the same run are compared.
  """

  questions: np.ndarray
  tokens: np.ndarray
  seconds: np.ndarray
  cycles: np.ndarray

  @classmethod
  def of(cls, timed: Mapping) -> Times:
    """Reads a method's entry of timing.json."""
    return cls(*(np.array(timed[name]) for name in cls._fields))

  @property
  def speed(self) -> Estimate:
    """All tokens divided by all seconds; clustered by question."""
    return quotient(self.questions, [self.tokens], [self.seconds])

  @property
  def speed_by_question(self) -> Estimate:
    """The mean of the answers' speeds, which is Spec-Bench's measure."""
    return Estimate.clustered(self.tokens / self.seconds, self.questions)

  @property
  def cycle(self) -> Estimate:
    """Milliseconds per cycle, prompts included."""
    return quotient(self.questions, [1e3 * self.seconds], [self.cycles])

  def speedup(self, base: Times) -> Estimate:
    """Returns the speed divided by the base's speed."""
    over, under = [self.tokens, base.seconds], [self.seconds, base.tokens]
    return quotient(self.questions, over, under)

  def slower(self, base: Times) -> Estimate:
    """Returns the extra time of a cycle over the base's, in percent."""
    over, under = [self.seconds, base.cycles], [self.cycles, base.seconds]
    return _percent(quotient(self.questions, over, under))


def expected_by_item(
  answers: Iterable[Answer], rule: str
) -> dict[int | str, float]:
  """Returns the expected tokens per cycle of a panel's rule, by question."""
  known = [answer for answer in _sound(answers) if rule in answer.expected]
  return _by_item(known, lambda answer: answer.expected[rule])


def right(answers: Iterable[Answer]) -> dict[int | str, float]:
  """Returns the share of right answers of each question with a reference."""
  known = [answer for answer in _sound(answers) if answer.right is not None]
  return _by_item(known, lambda answer: [answer.right])


def _sound(answers) -> list[Answer]:
  return [answer for answer in answers if answer.error is None]


def _by_item(
  answers: Iterable[Answer], values: Callable[[Answer], Sequence]
) -> dict[int | str, float]:
  """Returns each question's mean: over its pooled turns, then over seeds."""
  pooled: dict[int | str, dict[int | None, list[float]]] = {}
  for answer in answers:
    seeds = pooled.setdefault(answer.question, {})
    numbers = np.array(values(answer), float)  # None becomes NaN again
    seeds.setdefault(answer.method.seed, []).extend(numbers.tolist())
  return {
    question: float(np.mean([sum(x) / len(x) for x in seeds.values() if x]))
    for question, seeds in pooled.items()
    if any(seeds.values())
  }


def _expected(answers, name) -> np.ndarray | None:
  """Returns a rule's expected length by cycle; None if any answer lacks it."""
  if not answers or any(name(x) not in x.expected for x in answers):
    return None
  values = [x for answer in answers for x in answer.expected[name(answer)]]
  return np.array(values, float)  # None becomes NaN again
