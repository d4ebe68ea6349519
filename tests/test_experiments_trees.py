"""Comparisons of trees, from answers with known winners."""

import itertools

import numpy as np
import pytest

from configs import quickstart
from experiments import experiment, names, trees
from tests import test_report
from tests.test_experiments import render, unit
from tv_jax import tree as tree_lib
from tv_jax.edge.tables import NOTHING

TUNED = "bundled/trees/draft-traversal.25.json"
RAN = trees.short(trees.RAN)
# What each rule expects of each tree, in the mean.
PAPER = {"eagle": {"traversal": 4.0, trees.RAN: 4.1}}
LENGTHS = PAPER | {TUNED: {"traversal": 4.2, trees.RAN: 4.32}}


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
    yield test_report.line(
      tree,
      ran,
      "qa",
      question + 1,
      (floor + more).tolist(),
      {name: values.tolist() for name, values in expected.items()},
    )


def rows_of(artefact):
  """Returns the rows by tree and rule."""
  (table,) = artefact.tables
  rows = [dict(zip(table.header, row, strict=True)) for row in table.rows]
  return {(row["tree"], row["rule"]): row for row in rows}


def test_the_longest_is_found_and_its_gain_is_paired(tmp_path):
  unit(tmp_path, [*answers(LENGTHS)])
  artefact = render("frontier", tmp_path)
  rows = rows_of(artefact)
  tuned = "draft-traversal.25"
  assert [*rows] == [*itertools.product(("eagle", tuned), ("traversal", RAN))]
  assert rows["eagle", "traversal"]["gain"] == NOTHING
  for key, wanted in (
    (("eagle", RAN), 2.5),
    ((tuned, "traversal"), 5),
    ((tuned, RAN), 8),
  ):
    gain, error = map(float, rows[key]["gain"].removesuffix(" %").split(" ± "))
    assert gain == pytest.approx(wanted, abs=0.2)
    assert error < 0.2  # of lengths it is 4 %
  (line,) = artefact.reading
  assert f"{RAN} on {tuned} is +8" in line
  (figure,) = artefact.figures.values()
  assert "traversal, tuned" in figure


def test_a_tree_that_easy_questions_alone_were_asked_of_does_not_win(tmp_path):
  lines = [*answers(PAPER | {TUNED: {"traversal": 3.8, trees.RAN: 3.9}})]
  mean = {
    line["question"]: np.mean(line["expected"]["traversal"])
    for line in lines[:24]
  }
  easy = sorted(mean, key=mean.get)[-6:]
  kept = [line for line in lines[24:] if line["question"] in easy]
  unit(tmp_path, [*lines[:24], *kept])
  (line,) = render("frontier", tmp_path).reading
  assert f"{RAN} on eagle is" in line


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


@pytest.mark.parametrize("draft", ["bundled/draft", "bundled/draft_weak"])
def test_all_trees_of_a_size_are_no_larger_and_as_deep(draft):
  for nodes, known in zip(
    trees.SIZES, trees.frontier_trees(draft), strict=True
  ):
    assert next(iter(known)) == trees.SIZES[nodes]
    assert len(known) > 1
    for name in known:
      parsed = tree_lib.parse(name)
      assert len(parsed) - 1 <= nodes
      assert parsed.max_depth == 5


def test_trees_of_a_cooler_draft_are_for_temperature_1():
  frontier, config = names.find("frontier"), quickstart.get_config("weak")
  at_one = experiment.shards(frontier, config, False)
  config.temperatures = (0.6,)
  cooler = experiment.shards(frontier, config, False)
  drawn, without = (
    {s.overrides["trees"]: s.overrides["draft_temperature"] for s in run}
    for run in (at_one, cooler)
  )
  assert {tree for tree in drawn if "cool" in tree} == {*drawn} - {*without}
  assert without["chain:5"] == 0
  for tree, temperature in drawn.items():
    assert temperature == (0.55 if "cool" in tree else 0)


def test_a_cooler_drafts_runs_stand_beside_others_but_not_on_one_tree(tmp_path):
  made = [*answers(LENGTHS)]
  half = len(made) // 2
  unit(tmp_path / "eagle", made[:half], draft_temperature=0.0)
  unit(tmp_path / "tuned", made[half:], draft_temperature=0.5)
  (figure,) = render("frontier", tmp_path).figures.values()
  assert "traversal, tuned, draft at 0.5" in figure
  unit(tmp_path / "again", made[:half], draft_temperature=0.6)
  with pytest.raises(ValueError, match="drafted eagle at different draft_temp"):
    render("frontier", tmp_path)
