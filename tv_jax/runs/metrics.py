"""What is said of a run: means over items and over tokens, and their errors.

An item is a question: its turns, and its seeds, are pooled. Its cycles share a
context and are no independent draws, so that errors are over items.
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
  """What one way to decode did on some items.

  Attributes:
    by_item: Tokens a cycle: in each item, then over items. The paper's.
    by_token: Tokens a cycle, over all cycles: 1 + accepted / drafts, as engines
      print it. Spec-Bench's.
    reached: By depth from 1, the share of cycles that accepted a node there, as
      deep as any did.
    conditional: The same among the cycles that accepted a node of the depth
      above.
    drafted: Nodes drafted in a cycle; None of plain decoding.
    expected: Tokens a cycle that the rule expects, given each draft.
    gain: `expected` less what the baseline expects of the very same drafts.
    relative: The same in percent of what the baseline expects.
    check: Realised less expected length, by cycle: 0 within its error. A
      cycle's is 0 in the mean whatever came before, so that cycles need no
      clustering here.
    exact_match: The share of right answers, over items; None if none has a
      reference.
    items: How many.
    cycles: How many.
    faults: Cycles that met a NaN, or what is no decision or no draft.
    failed: Answers that are missing, for an error.
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
  """Returns the cell of one method's answers, its seeds pooled.

  The baseline is the rule to compare with on the same drafts.
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
  """Returns the mean of `lengths` over that of `base`, in percent above 1.

  Both are arrays; values of one item go together. The error is that of a ratio
  of clusters' sums, in which both vary.
  """
  return _percent(quotient(item, [lengths], [base]))


def quotient(item, over, under) -> Estimate:
  """Returns the product of the sums of `over`, by that of the sums of `under`.

  Args:
    item: Which item each value is of; values of one go together.
    over: Arrays, each with as many values.
    under: Likewise.

  Returns:
    The quotient, whose error is to the first order in the clusters' sums, all
    of which vary.
  """
  over, under = (np.array([*arrays], np.float64) for arrays in (over, under))
  sums, below = over.sum(1), under.sum(1)
  # How much more each sum is worth.
  each = [np.delete(sums, k).prod() / below.prod() for k in range(len(sums))]
  value = float(sums.prod() / below.prod())
  around = each @ over - (value / below) @ under
  result = Estimate.clustered(around * around.size, item)
  return dataclasses.replace(result, mean=value)


def net(longer: Estimate, slower: Estimate) -> Estimate:
  """Returns the gain in tokens a second, in percent.

  Args:
    longer: What a cycle gains more, in percent.
    slower: What it takes longer, in percent, measured apart.
  """
  length, time = 1 + longer.mean / 100, 1 + slower.mean / 100
  error = np.hypot(longer.error, slower.error * length / time) / time
  mean = 100 * (length / time - 1)
  return Estimate(mean=mean, error=float(error), n=min(longer.n, slower.n))


def _percent(value: Estimate) -> Estimate:
  """Of a quotient, what it is above 1."""
  mean, error = 100 * (value.mean - 1), 100 * value.error
  return Estimate(mean=mean, error=error, n=value.n)


class Times(NamedTuple):
  """What was timed of a method, answer by answer; questions may come again.

  Those of one run are of the same questions in the same order, and only such
  are compared.
  """

  questions: np.ndarray
  tokens: np.ndarray
  seconds: np.ndarray
  cycles: np.ndarray

  @classmethod
  def of(cls, timed: Mapping) -> Times:
    """Of a method's timing, as a run keeps it."""
    return cls(*(np.array(timed[name]) for name in cls._fields))

  @property
  def speed(self) -> Estimate:
    """Tokens a second, all by all; clustered by question."""
    return quotient(self.questions, [self.tokens], [self.seconds])

  @property
  def speed_by_question(self) -> Estimate:
    """Returns the mean of the answers' own speeds: Spec-Bench's."""
    return Estimate.clustered(self.tokens / self.seconds, self.questions)

  @property
  def cycle(self) -> Estimate:
    """Milliseconds a cycle, prompts included."""
    return quotient(self.questions, [1e3 * self.seconds], [self.cycles])

  def speedup(self, base: Times) -> Estimate:
    """Tokens a second over the base's."""
    over, under = [self.tokens, base.seconds], [self.seconds, base.tokens]
    return quotient(self.questions, over, under)

  def slower(self, base: Times) -> Estimate:
    """Returns what a cycle takes longer than the base's, in percent."""
    over, under = [self.seconds, base.cycles], [self.cycles, base.seconds]
    return _percent(quotient(self.questions, over, under))


def expected_by_item(
  answers: Iterable[Answer], rule: str
) -> dict[int | str, float]:
  """By question, the tokens a cycle that a rule of the panel expects."""
  known = [answer for answer in _sound(answers) if rule in answer.expected]
  return _by_item(known, lambda answer: answer.expected[rule])


def right(answers: Iterable[Answer]) -> dict[int | str, float]:
  """By question that has a reference, the share of right answers."""
  known = [answer for answer in _sound(answers) if answer.right is not None]
  return _by_item(known, lambda answer: [answer.right])


def _sound(answers) -> list[Answer]:
  return [answer for answer in answers if answer.error is None]


def _by_item(
  answers: Iterable[Answer], values: Callable[[Answer], Sequence]
) -> dict[int | str, float]:
  """Returns each question's mean: its turns pooled, then over its seeds."""
  pooled: dict[int | str, dict[int | None, list[float]]] = {}
  for answer in answers:
    seeds = pooled.setdefault(answer.question, {})
    seeds.setdefault(answer.method.seed, []).extend(values(answer))
  return {
    question: float(np.mean([sum(x) / len(x) for x in seeds.values() if x]))
    for question, seeds in pooled.items()
    if any(seeds.values())
  }


def _expected(answers, name) -> np.ndarray | None:
  """Returns what a rule expects by cycle; None if any answer lacks it."""
  if not answers or any(name(x) not in x.expected for x in answers):
    return None
  values = [x for answer in answers for x in answer.expected[name(answer)]]
  return np.array(values, float)  # None, where a NaN was met, is one again
