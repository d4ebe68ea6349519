"""Means and errors, on records small enough to be done by hand."""

import numpy as np
import pytest

from tv_jax import metrics
from tv_jax.records import Answer, Method


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
  given = {"turn": 0, "accepted": accepted, "expected": expected} | fields
  return Answer(task="qa", question=question, method=method, **given)


def test_errors_are_clustered():
  rng = np.random.default_rng(0)
  item = np.repeat(np.arange(400), 5)
  values = rng.normal(size=400)[item] + 0.1 * rng.normal(size=2000)
  found = metrics.Estimate.clustered(values, item)
  assert found.error == pytest.approx(1 / 20, rel=0.1)  # not 1 / sqrt(2000)
  assert found.n == 400
  alone = metrics.Estimate.clustered(values, np.arange(2000))
  assert alone.error == pytest.approx(values.std(ddof=1) / 2000**0.5)
  assert f"{metrics.Estimate.clustered(values, 0 * item)}".endswith("± ?")


def test_how_an_estimate_prints():
  found = metrics.Estimate(mean=1.23456, error=0.0123, n=3)
  assert f"{found}" == "1.235 ± 0.012"
  assert f"{found:+.2f}" == "+1.23 ± 0.01"
  assert f"{metrics.Estimate.of([1.0])}" == "1.000 ± ?"
  assert f"{metrics.Estimate.of([])}" == "nan ± ?"


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
  assert cell.cycles == 6
  assert cell.expected.mean == pytest.approx(16 / 6 - 0.5)
  assert cell.gain.mean == pytest.approx(0.5)
  assert cell.gain.error == pytest.approx(0)
  assert cell.check.mean == pytest.approx(0.5)
  assert cell.check.n == 6
  assert cell.exact_match is None


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


def test_a_rule_without_a_stop_law_expects_nothing():
  cell = metrics.cell([record(expected={})], "token_level")
  assert cell.expected is None
  assert cell.check is None
  assert cell.gain is None


def test_the_baseline_gains_nothing_over_itself():
  own = [record(verifier="token_level")]
  assert metrics.cell(own, "token_level").gain is None


def test_two_runs_are_compared_item_by_item():
  ours = [record(1, (3,)), record(2, (5,)), record(3, (9,))]
  theirs = [record(1, (2,)), record(2, (2,))]
  found = metrics.difference(ours, theirs)
  assert found.mean == pytest.approx(2)
  assert found.n == 2


def test_two_speeds():
  assert metrics.speeds([10, 30], [1.0, 1.0]) == pytest.approx((20, 20))
  assert metrics.speeds([10, 30], [1.0, 2.0]) == pytest.approx((40 / 3, 12.5))
