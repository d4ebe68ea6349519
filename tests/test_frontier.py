"""The frontier: of answers that are made by hand, the winners are known."""

import itertools

import numpy as np
import pytest

from experiments import experiment, frontier, places
from tests import test_report
from tests.test_experiments import unit
from tv_jax import tree as tree_lib
from tv_jax.runs.report.tables import NOTHING

DRAFT, WEAK = "bundled/draft", "bundled/draft_weak"
TUNED = "bundled/trees/draft-traversal.25.json"


SHAPED = "adaptive:5,5,5,5,5@bundled/calibrations/draft.json"
# What each rule expects of each tree, in the mean.
PAPER = {"eagle": {"traversal": 4.0, "ot_traversal": 4.1}}
LONGER = {"traversal": 4.2, "ot_traversal": 4.32}
LENGTHS = PAPER | {TUNED: LONGER}


def answers(lengths, off=0.0, seed=0, **fields):
  """Questions differ by far more than rules and trees do."""
  rng = np.random.default_rng(seed)
  of_question = rng.uniform(0.6, 1.4, 24)
  of_question /= of_question.mean()
  for (tree, by_rule), question in itertools.product(
    lengths.items(), range(24)
  ):
    scale = of_question[question] * rng.uniform(0.99, 1.01, 40)
    own = {name: scale * mean for name, mean in by_rule.items()}
    floor = np.floor(own[places.RAN] + off).astype(int)
    more = rng.random(40) < own[places.RAN] + off - floor
    yield test_report.line(
      tree,
      places.RAN,
      "qa",
      question + 1,
      (floor + more).tolist(),
      {name: values.tolist() for name, values in own.items()},
      **{"seed": seed} | fields,
    )


def made(folder):
  apart = frontier.EXPERIMENT.apart
  return frontier.EXPERIMENT.render(
    [experiment.read(folder, "one", apart=apart)]
  )


def test_the_winner_is_found_and_its_gain_is_paired(tmp_path):
  unit(tmp_path, [*answers(LENGTHS)])
  found = made(tmp_path)
  winners, everything = found.tables
  (row,) = winners.rows
  assert row[:3] == ["one, T = 1", "25", "eagle"]
  assert row[4:6] == ["ot_traversal", "draft-traversal.25"]
  gain, error = map(float, row[-2].removesuffix(" %").split(" ± "))
  assert gain == pytest.approx(8, abs=0.2)
  assert error < 0.2  # of lengths it is 4 %
  assert row[-1] == NOTHING  # no cycle was timed
  trees = "eagle", "draft-traversal.25"
  pairs = [(cells[1], cells[3]) for cells in everything.rows]
  assert pairs == [*itertools.product(trees, places.RULES)]
  line, check = found.reading
  assert "+5.0 ± 0.0 % with the tree alone" in line
  assert "+2.5 ± 0.0 % with the rule alone" in line
  assert "in 2 runs" in check


def easy(lines):
  """A worse tree that only the six easiest questions were asked of."""
  mean = {
    one["question"]: np.mean(one["expected"]["traversal"]) for one in lines[:24]
  }
  few = sorted(mean, key=mean.get)[-6:]
  return [*lines[:24], *(one for one in lines[24:] if one["question"] in few)]


@pytest.mark.parametrize(
  ("lengths", "change", "winner", "said"),
  [
    (
      PAPER | {TUNED: {"traversal": 4.2, "ot_traversal": 4.48}},
      list,
      "draft-traversal.25",
      "this reaches the goal of 10 %.",
    ),
    (
      PAPER | {TUNED: {"traversal": 3.8, "ot_traversal": 3.9}},
      easy,
      "eagle",
      "ot_traversal on eagle",
    ),
  ],
)
def test_what_wins_and_what_is_said(tmp_path, lengths, change, winner, said):
  unit(tmp_path, change([*answers(lengths)]))
  found = made(tmp_path)
  assert found.tables[0].rows[0][5] == winner
  assert said in " ".join(found.reading)


def test_all_trees_of_a_size_are_no_larger_and_as_deep():
  for draft, nodes in itertools.product((DRAFT, WEAK), places.BASES):
    known = places.trees(draft, nodes)
    assert next(iter(known)) == places.BASES[nodes]
    for name, share in known.items():
      parsed = tree_lib.parse(name)
      assert len(parsed) - 1 <= nodes
      assert parsed.max_depth == 5
      # What the tables say of a draft is what a run does.
      told = (share, 1) if "bundled" in name else None
      assert tree_lib.temperatures(name) == told


def timed(lengths):
  """Each question has cycles of its own time."""
  for tree, scale in lengths.items():
    for rule in places.RULES:
      more = 1e-3 * scale * (1.05 if rule == places.RAN else 1)
      own = [2 * more, 8 * more, 18 * more]  # 1, 2 and 3 a cycle
      yield test_report.timed(tree, rule, [10] * 3, own, [2, 4, 6])


def test_the_net_gain_is_that_of_length_less_that_of_time(tmp_path):
  unit(tmp_path, [*answers(PAPER | {SHAPED: LONGER})])
  test_report.keep_times(tmp_path, [*timed({"eagle": 10.0, SHAPED: 9.0})])
  found = made(tmp_path)
  by = {(cells[1], cells[3]): cells for cells in found.tables[1].rows}
  assert by["eagle", "traversal"][-2:] == ["20.00", NOTHING]
  own = by["adaptive:5,5,5,5,5@draft", "ot_traversal"]
  assert own[-2] == "18.90"
  # 4.32 / 4.0 in length; 0.9 * 1.05 in time.
  net, error = map(float, own[-1].removesuffix(" %").split(" ± "))
  assert net == pytest.approx(100 * (1.08 / 0.945 - 1), abs=0.3)
  assert error < 0.3  # paired: of cycles' times over questions it is 30 %
  # 1.05 in length, 0.9 in time: the rule is worth less than it takes.
  fastest = " ".join(found.reading)
  assert "the fastest that was timed is traversal on adaptive" in fastest
