"""The frontier: of answers that are made by hand, the winners are known."""

import itertools

import numpy as np
import pytest

from configs import quickstart
from experiments import experiment, frontier
from tests import test_report
from tests.test_experiments import unit
from tv_jax import tree as tree_lib
from tv_jax.edge.tables import NOTHING

DRAFT, WEAK = "bundled/draft", "bundled/draft_weak"
TUNED = "bundled/trees/draft-traversal.25.json"


RAN = frontier.short(frontier.RAN)
SHAPED = "adaptive:5,5,5,5,5@bundled/calibrations/draft.json"
# What each rule expects of each tree, in the mean.
PAPER = {"eagle": {"traversal": 4.0, frontier.RAN: 4.1}}
LONGER = {"traversal": 4.2, frontier.RAN: 4.32}
LENGTHS = PAPER | {TUNED: LONGER}


def answers(lengths):
  """Questions differ by far more than rules and trees do."""
  rng = np.random.default_rng(0)
  of_question = rng.uniform(0.6, 1.4, 24)
  of_question /= of_question.mean()
  for (tree, by_rule), question in itertools.product(
    lengths.items(), range(24)
  ):
    scale = of_question[question] * rng.uniform(0.99, 1.01, 40)
    expected = {name: scale * mean for name, mean in by_rule.items()}
    floor = np.floor(expected[frontier.RAN]).astype(int)
    more = rng.random(40) < expected[frontier.RAN] - floor
    yield test_report.line(
      tree,
      frontier.RAN,
      "qa",
      question + 1,
      (floor + more).tolist(),
      {name: values.tolist() for name, values in expected.items()},
    )


def render(folder):
  return frontier.render([experiment.read(folder, frontier.FRONTIER)])


def rows_of(artefact):
  """By tree and rule."""
  (table,) = artefact.tables
  rows = [dict(zip(table.header, row, strict=True)) for row in table.rows]
  return {(row["tree"], row["rule"]): row for row in rows}


def test_the_longest_is_found_and_its_gain_is_paired(tmp_path):
  unit(tmp_path, [*answers(LENGTHS)])
  artefact = render(tmp_path)
  rows = rows_of(artefact)
  trees = "eagle", "draft-traversal.25"
  assert [*rows] == [*itertools.product(trees, ("traversal", RAN))]
  assert rows["eagle", "traversal"]["gain"] == NOTHING
  for key, wanted in (
    (("eagle", RAN), 2.5),
    (("draft-traversal.25", "traversal"), 5),
    (("draft-traversal.25", RAN), 8),
  ):
    gain, error = map(float, rows[key]["gain"].removesuffix(" %").split(" ± "))
    assert gain == pytest.approx(wanted, abs=0.2)
    assert error < 0.2  # of lengths it is 4 %
  assert {row["net gain"] for row in rows.values()} == {NOTHING}  # not timed
  (line,) = artefact.reading
  assert f"{RAN} on draft-traversal.25 is +8" in line
  (figure,) = artefact.figures.values()
  assert "traversal, the paper's trees" in figure


def test_a_tree_that_easy_questions_alone_were_asked_of_does_not_win(tmp_path):
  lines = [*answers(PAPER | {TUNED: {"traversal": 3.8, frontier.RAN: 3.9}})]
  mean = {
    line["question"]: np.mean(line["expected"]["traversal"])
    for line in lines[:24]
  }
  easy = sorted(mean, key=mean.get)[-6:]
  kept = [line for line in lines[24:] if line["question"] in easy]
  unit(tmp_path, [*lines[:24], *kept])
  assert f"25 nodes: {RAN} on eagle is" in render(tmp_path).reading[0]


def test_all_trees_of_a_size_are_no_larger_and_as_deep():
  for draft, nodes in itertools.product((DRAFT, WEAK), frontier.SIZES):
    known = frontier.trees(draft, nodes)
    assert next(iter(known)) == frontier.SIZES[nodes][0]
    assert len(known) > 2
    for name, share in known.items():
      parsed = tree_lib.parse(name)
      assert len(parsed) - 1 <= nodes
      assert parsed.max_depth == 5
      # What the tables say of a draft is what a run does.
      cooled = (share, 1) if "bundled" in name else None
      assert tree_lib.temperatures(name) == cooled


def test_what_is_timed_was_tuned_for_the_traversal():
  config = quickstart.get_config("weak")
  (shard,) = (s for s in frontier.sweep(config, False) if "timed" in s.name)
  assert shard.overrides["trees"].split() == [
    "eagle",
    "bundled/trees/draft_weak_cool-traversal.25.json",
    "adaptive:5,5,5,5,5@bundled/calibrations/draft_weak_cool.json",
  ]
  config = quickstart.get_config()
  *_, shard = (s for s in frontier.sweep(config, False) if "timed" in s.name)
  assert "draft-ot_traversal.25" not in shard.overrides["trees"]


def timed(lengths):
  """Each question has cycles of its own time."""
  for tree, scale in lengths.items():
    for rule in frontier.RULES:
      more = 1e-3 * scale * (1.05 if rule == frontier.RAN else 1)
      seconds = [2 * more, 8 * more, 18 * more]  # 1, 2 and 3 a cycle
      yield test_report.timed(tree, rule, [10] * 3, seconds, [2, 4, 6])


def test_the_net_gain_is_that_of_length_less_that_of_time(tmp_path):
  unit(tmp_path, [*answers(PAPER | {SHAPED: LONGER})])
  test_report.keep_times(tmp_path, [*timed({"eagle": 10.0, SHAPED: 9.0})])
  artefact = render(tmp_path)
  rows = rows_of(artefact)
  assert rows["eagle", "traversal"]["ms a cycle"] == "20.00"
  row = rows["adaptive:5,5,5,5,5@draft", RAN]
  assert row["ms a cycle"] == "18.90"
  # 4.32 / 4.0 in length; 0.9 * 1.05 in time.
  net, error = map(float, row["net gain"].removesuffix(" %").split(" ± "))
  assert net == pytest.approx(100 * (1.08 / 0.945 - 1), abs=0.3)
  assert error < 0.3  # paired: of cycles' times over questions it is 30 %
  # 1.05 in length, 0.9 in time: the rule is worth less than it takes.
  assert "; traversal on adaptive:5,5,5,5,5@draft is +16" in artefact.reading[0]
