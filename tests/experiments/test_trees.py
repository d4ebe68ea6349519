"""Comparisons of trees, from answers with known winners."""

import itertools

import numpy as np
import pytest

from experiments import trees
from tests.lib import grids
from tests.lib.grids import render, unit
from tv_jax.runs.tables import NOTHING

BASE, RAN = trees.RULES
# What each rule expects of each tree, in the mean.
CHAIN = {"chain:7": {BASE: 4.0, RAN: 4.1}}
LENGTHS = CHAIN | {"eagle": {BASE: 4.2, RAN: 4.32}}


def answers(lengths):
  """Yields answers that differ more between questions than between trees."""
  rng = np.random.default_rng(0)
  of_question = rng.uniform(0.6, 1.4, 24)
  of_question /= of_question.mean()
  for (tree, by_rule), question in itertools.product(
    lengths.items(), range(24)
  ):
    scale = of_question[question] * rng.uniform(0.99, 1.01, 40)
    expected = {name: scale * mean for name, mean in by_rule.items()}
    *_, ran = by_rule
    floor = np.floor(expected[ran]).astype(int)
    more = rng.random(40) < expected[ran] - floor
    yield grids.line(
      tree,
      ran,
      "qa",
      question + 1,
      (floor + more).tolist(),
      {name: values.tolist() for name, values in expected.items()},
    )


def rows_of(report):
  """Returns the rows by tree and rule."""
  (table,) = report.tables
  rows = table.flat.to_dict("records")
  return {(row["tree"], row["rule"]): row for row in rows}


def test_the_longest_is_found_and_its_gain_is_paired(tmp_path):
  unit(tmp_path, [*answers(LENGTHS)])
  report = render("drafts", tmp_path)
  rows = rows_of(report)
  assert [*rows] == [*itertools.product(LENGTHS, trees.RULES)]
  assert rows["chain:7", BASE]["gain"] == NOTHING
  for key, wanted in (
    (("chain:7", RAN), 2.5),
    (("eagle", BASE), 5),
    (("eagle", RAN), 8),
  ):
    gain, error = map(float, rows[key]["gain"].removesuffix(" %").split(" ± "))
    assert gain == pytest.approx(wanted, abs=0.2)
    assert error < 0.2  # of lengths it is 4 %
  (line,) = report.findings
  assert f"{RAN} on eagle is +8" in line


def test_a_tree_that_easy_questions_alone_were_asked_of_does_not_win(tmp_path):
  lines = [*answers(CHAIN | {"eagle": {BASE: 3.8, RAN: 3.9}})]
  mean = {
    line["question"]: np.mean(line["expected"][BASE]) for line in lines[:24]
  }
  easy = sorted(mean, key=mean.get)[-6:]
  kept = [line for line in lines[24:] if line["question"] in easy]
  unit(tmp_path, [*lines[:24], *kept])
  (line,) = render("drafts", tmp_path).findings
  assert f"{RAN} on chain:7 is" in line


def test_what_a_tree_gives_and_what_the_rule_does(tmp_path):
  """A tree is 20 % longer, and the traversal another 50 %."""
  lengths = {
    "chain:7": {"token_level": 2.0, "traversal": 2.2},
    "eagle": {"token_level": 2.4, "traversal": 3.6},
  }
  unit(tmp_path, [*answers(lengths)])
  rows = rows_of(render("drafts", tmp_path))
  assert [row["drafted"] for row in rows.values()] == ["7", "7", "25", "25"]
  gains = [row["gain"].split()[0] for row in rows.values()]
  assert gains[0] == NOTHING
  assert [*map(float, gains[1:])] == pytest.approx([10, 20, 80], abs=1)
