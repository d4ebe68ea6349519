"""Means and errors of records that are small enough to check by hand."""

import numpy as np
import pytest

from tv_jax.engine.results import Estimate
from tv_jax.runs import metrics
from tv_jax.runs.records import Answer, Method


def record(question=1, accepted=(2, 4), verifier="traversal", seed=0, **fields):
  expected = {
    "traversal": [x - 0.5 for x in accepted],
    "token_level": [x - 1 for x in accepted],
  }
  method = Method(
    tree="eagle",
    proposal="top_k",
    verifier=verifier,
    temperature=1.0,
    seed=seed,
  )
  line = {"turn": 0, "accepted": accepted, "expected": expected} | fields
  return Answer(task="qa", question=question, method=method, **line)


def test_errors_are_clustered():
  rng = np.random.default_rng(0)
  item = np.repeat(np.arange(400), 5)
  values = rng.normal(size=400)[item] + 0.1 * rng.normal(size=2000)
  found = Estimate.clustered(values, item)
  assert found.error == pytest.approx(1 / 20, rel=0.1)  # not 1 / sqrt(2000)
  assert found.n == 400
  alone = Estimate.clustered(values, np.arange(2000))
  assert alone.error == pytest.approx(values.std(ddof=1) / 2000**0.5)
  assert f"{Estimate.clustered(values, 0 * item)}".endswith("± ?")


def test_a_nan_is_a_number_in_each_question():
  expected = {"traversal": [None, 2.0]}  # as JSON has it
  answers = [record(1, expected=expected), record(2)]
  found = metrics.expected_by_item(answers, "traversal")
  assert np.isnan(found[1])
  assert found[2] == pytest.approx(2.5)


def test_by_item_and_by_token():
  # Item 1: 6 of 2 cycles; item 2, two turns: 1 + 9 of 4 cycles.
  records = [
    record(1, (2, 4)),
    record(2, (1,)),
    record(2, (3, 3, 3), turn=1),
  ]
  cell = metrics.cell(records, "token_level")
  assert cell.by_item.mean == pytest.approx((3 + 2.5) / 2)
  assert cell.by_item.error == pytest.approx(np.std([3, 2.5], ddof=1) / 2**0.5)
  assert cell.by_item.n == cell.items == 2
  assert cell.by_token.mean == pytest.approx(16 / 6)
  # The ratio's error: item sums of (value - 16/6) are 2/3 and -2/3.
  assert cell.by_token.error == pytest.approx((2 * 2 * (2 / 3) ** 2) ** 0.5 / 6)
  assert cell.by_token.n == 2
  deep = sum(share.mean for share in cell.reached)
  assert cell.by_token.mean == pytest.approx(1 + deep)
  assert cell.cycles == 6
  assert cell.expected.mean == pytest.approx(16 / 6 - 0.5)
  assert cell.gain.mean == pytest.approx(0.5)
  assert cell.gain.error == pytest.approx(0)
  assert cell.check.mean == pytest.approx(0.5)
  assert cell.check.n == 6
  assert cell.exact_match is None


def test_conditional_acceptance_has_the_error_of_the_cycles_it_is_over():
  """Questions without such a cycle do not count."""
  shallow = [record(question, (1, 1)) for question in range(4)]
  cell = metrics.cell([*shallow, record(4, (2, 3))])
  assert cell.conditional[1].mean == pytest.approx(0.5)
  assert cell.conditional[1].n == 1
  assert f"{cell.conditional[1]:.2f}" == "0.50 ± ?"
  cell = metrics.cell([*shallow, record(4, (2, 3)), record(5, (2, 2))])
  assert cell.conditional[1].mean == pytest.approx(1 / 4)
  # Two questions: sums of (value - 1/4) are 1/2 and -1/2.
  assert cell.conditional[1].error == pytest.approx((2 * 2 / 4) ** 0.5 / 4)


def test_seeds_of_a_question_are_one_item():
  records = [record(1, (2,)), record(1, (4,), seed=1), record(2, (5,))]
  cell = metrics.cell(records)
  assert cell.by_item.mean == pytest.approx((3 + 5) / 2)
  assert cell.by_item.n == 2


def test_exact_match_is_over_questions():
  records = [
    record(1, right=True),
    record(1, right=False, turn=1),
    record(2, right=True),
    record(3),
  ]
  found = metrics.cell(records).exact_match
  assert found.mean == pytest.approx(0.75)
  assert found.n == 2


def test_failures_and_faults_are_counted_and_never_a_zero():
  failed = record(9, error="no")
  cell = metrics.cell([record(1, (2, 4)), record(2, (3,), faults=2), failed])
  assert (cell.failed, cell.faults, cell.items) == (1, 2, 2)
  assert cell.by_item.mean == pytest.approx(3)
  empty = metrics.cell([failed])
  assert np.isnan(empty.by_item.mean)
  assert empty.items == 0
  assert empty.expected is None


def times(**fields):
  timed = {"questions": [1, 2], "tokens": [10, 30], "seconds": [1.0, 2.0]}
  return metrics.Times.of(timed | {"cycles": [5, 10]} | fields)


def test_what_all_questions_share_is_no_error_of_a_comparison():
  """Questions differ in speed, so they are compared pair by pair."""
  base = times()
  assert base.speed.mean == pytest.approx(40 / 3)
  assert base.speed_by_question.mean == pytest.approx(12.5)
  assert base.cycle.mean == pytest.approx(200)
  assert base.speed.error > 1
  slower = times(seconds=[1.1, 2.2]).slower(base)
  assert slower.mean == pytest.approx(10)
  assert slower.error == pytest.approx(0, abs=1e-9)
  longer = times(tokens=[20, 60]).speedup(base)
  assert (longer.mean, longer.error) == pytest.approx((2, 0))


def test_the_error_of_a_quotient_is_that_of_many_draws():
  """The error of a ratio of sums, against the spread of simulated ratios."""
  rng = np.random.default_rng(0)
  item = np.repeat(np.arange(200), 2)

  def draw():
    question = 1 + 0.3 * rng.random((200, 4)).repeat(2, 0)
    return (question * (1 + 0.1 * rng.random((400, 4)))).T

  draws = [
    metrics.quotient(item, x[:2], x[2:]) for x in (draw() for _ in range(1000))
  ]
  means = np.array([estimate.mean for estimate in draws])
  error = np.mean([estimate.error for estimate in draws])
  assert error == pytest.approx(means.std(ddof=1), rel=0.05)
  # The rounds of a question are not independent draws.
  apart = metrics.quotient(np.arange(400), *np.split(draw(), 2))
  assert apart.error < 0.8 * error


def test_the_net_gain_is_in_tokens_a_second():
  longer = Estimate(mean=8.0, error=1.0, n=9)
  found = metrics.net(longer, Estimate(mean=-10.0, error=0.0, n=3))
  assert found.mean == pytest.approx(20)
  assert found.error == pytest.approx(1 / 0.9)
  found = metrics.net(longer, Estimate(mean=0.0, error=2.0, n=3))
  assert found.error == pytest.approx(np.hypot(1, 2 * 1.08))
