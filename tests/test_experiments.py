"""Experiments: what they make of answers that are made by hand."""

import itertools
import re

import numpy as np
import pytest

from configs import llama3_1b_8b, quickstart
from experiments import (
  command,
  example,
  experiment,
  main_table,
  names,
  outputs,
  paper,
)
from tests import test_report
from tests.stores import ROOT
from tv_jax.runs.report.tables import NOTHING, TASKS

HOT = tuple(paper.TEMPERATURES)


def unit(folder, answers, finish=True, **config):
  trees = [*dict.fromkeys(one["tree"] for one in answers)]
  config = {"trees": " ".join(t for t in trees if t != "none")} | config
  return test_report.unit(folder, answers, finish, **config)


def planted(trees, gains, temperatures=(1.0,), seeds=(0,), questions=20):
  """Answers in which the traversal expects so much more on the same drafts."""
  rng = np.random.default_rng(1)
  for tree, hot, seed, question, rule in itertools.product(
    trees, temperatures, seeds, range(1, questions + 1), test_report.RULES
  ):
    expected = rng.uniform(2, 4, 30)
    gain = gains(tree, hot) * expected * rng.uniform(0.5, 1.5, 30)
    own = {"token_level": expected, "traversal": expected + gain}
    whole = own[rule].astype(int)
    yield test_report.line(
      tree,
      rule,
      "qa",
      question,
      (whole + (rng.random(30) < own[rule] - whole)).tolist(),
      {name: values.tolist() for name, values in own.items()},
      temperature=hot,
      seed=seed,
    )


def made(name, folder):
  return names.find(name).render([command.group(folder)])


def test_the_papers_numbers_stand_beside_ones_own(tmp_path):
  test_report.unit(tmp_path, [*test_report.items()])
  command.make(main_table.EXPERIMENT, [command.group(tmp_path)], tmp_path)
  rows = test_report.rows_of(tmp_path / "main_table.csv")
  by = {(row["table"].split(", ")[1], row["task"]): row for row in rows}
  for tree, task in itertools.product(paper.TREES, paper.TASKS):
    printed = paper.LLAMA3.acceptance[task][tree]
    row = by[tree, TASKS[task]]
    assert row["the paper Tra.V"].split()[0] == f"{printed.traversal.mean:.2f}"
    assert row["the paper Delta"] == f"{printed.delta:+.1f}%"
  assert by["eagle", "Avg. accept."]["this run Tra.V"] != NOTHING
  assert by["kary:2x5", "QA"]["this run Tra.V"] == NOTHING


@pytest.mark.parametrize(
  ("gain", "ends", "sure"),
  [
    (lambda tree, t: 0.05 * t, ["+1.0 ± ", "+5.0 ± "], True),
    (lambda tree, t: 0.03, [" ± ", " ± "], False),
  ],
)
def test_how_a_gain_grows_with_temperature_is_found(tmp_path, gain, ends, sure):
  answers = planted(["chain:5"], gain, HOT)
  unit(tmp_path, [*answers], temperatures=HOT)
  (line,) = made("temperature", tmp_path).reading
  for end, part in zip(ends, line.split(" to "), strict=True):
    assert end in part
  assert ("0 within its error" not in line) == sure


@pytest.mark.parametrize(
  ("name", "trees", "own", "papers"),
  [
    ("temperature", ["chain:5"], "1", "%"),
    ("depth", ["chain:2", "kary:2x5"], "kary:2x5", "4.73"),
    ("statistics", ["eagle"], "eagle", "2.04x"),
  ],
)
def test_answers_stand_beside_the_papers(tmp_path, name, trees, own, papers):
  unit(tmp_path, [*planted(trees, lambda tree, t: 0.03)])
  rows = [row for table in made(name, tmp_path).tables for row in table.rows]
  (row,) = (row for row in rows if row[0] == own and papers in " ".join(row))
  assert NOTHING not in row[:4]


def test_what_a_tree_gives_and_what_the_rule_does(tmp_path):
  """A tree is 20 % longer, and the traversal another 50 %."""
  gains = {"chain:7": 0.1, "eagle": 0.5}
  answers = [*planted(gains, lambda tree, t: gains[tree])]
  for one in answers:
    if one["question"] % 2:  # questions count alike, however long
      one["accepted"] = one["accepted"][:3]
      one["expected"] = {r: own[:3] for r, own in one["expected"].items()}
    if one["tree"] == "eagle":
      one["expected"] = {
        rule: [1.2 * x for x in own] for rule, own in one["expected"].items()
      }
  unit(tmp_path, answers)
  (table,) = made("drafts", tmp_path).tables
  rows = [dict(zip(table.header, row, strict=True)) for row in table.rows]
  chain, tree = ({k: own[k].split()[0] for k in own} for own in rows)
  assert [own["drafted"] for own in (chain, tree)] == ["7", "25"]
  assert [own["passes"] for own in (chain, tree)] == ["7", "5"]
  assert chain["the tree"] == NOTHING
  assert rows[0]["the rule"] == rows[0]["both"]  # with their errors
  for name, planted_gain in (("the rule", 50), ("the tree", 20), ("both", 80)):
    assert abs(float(tree[name]) - planted_gain) < 5


def test_what_is_missing_is_said_and_what_differs_is_refused(tmp_path):
  with pytest.raises(ValueError, match="there is no run in it"):
    command.group(tmp_path)
  answers = [*planted(["eagle"], lambda tree, t: 0.0)]
  answers[0] = test_report.failed(answers[0], "too long")
  unit(tmp_path / "seed-0", answers, finish=False)
  found = made("main_table", tmp_path)
  said = " ".join(found.notes)
  assert "NOT FINISHED: seed-0" in said
  assert "1 ANSWERS FAILED" in said
  again = [one | {"seed": 1} for one in answers]
  unit(tmp_path / "seed-1", again, seeds=(1,), max_new_tokens=7)
  with pytest.raises(ValueError, match=r"max_new_tokens: \d+ there, 7 now"):
    command.group(tmp_path)


def test_the_sweeps_are_the_papers():
  config = llama3_1b_8b.get_config()
  for name, field, wanted in (
    ("temperature", "temperatures", [(t,) for t in HOT]),
    ("main_table", "seeds", [(0,), (1,), (2,)]),
    (
      "depth",
      "trees",
      ["chain:2", "chain:4", "chain:6", "chain:8"]
      + [f"kary:2x{d}" for d in (2, 3, 4, 5)],
    ),
  ):
    shards = names.find(name).sweep(config, False)
    assert [shard.overrides[field] for shard in shards] == wanted


def test_the_worked_example_is_the_papers():
  assert example.single_token() == pytest.approx(example.TABLE_1, abs=1e-6)
  walk = example.offers("traversal")
  assert [*walk] == ["X3", "X4", "X1", "X5", "X2"]
  exact = [2 / 3, 7 / 11, 0, 1 / 2, 1]
  assert [*walk.values()] == pytest.approx(exact, abs=1e-6)
  assert example.reached("token_level") == pytest.approx(0.5, abs=1e-6)
  assert example.siblings() == pytest.approx({"b": 4 / 9, "c": 1})
  found = example.render()
  assert not [row for row in found.tables[0].rows if row[1:4] != row[4:]]


def samples(rng, law, questions, each):
  return {
    question: [rng.choice(len(law), 12, p=law).tolist() for _ in range(each)]
    for question in range(questions)
  }


def test_another_law_is_seen_and_too_few_answers_are_no_test():
  rng = np.random.default_rng(0)
  found = outputs.compare(
    samples(rng, [0.5, 0.3, 0.2], 20, 4), samples(rng, [0.3, 0.4, 0.3], 20, 4)
  )
  assert found.chance == 1 / (1 + outputs.SHUFFLES)
  assert found.distance > 0
  assert (found.questions, found.answers) == (20, 160)
  for theirs in ({1: [[1]]}, {2: [[1], [2]]}):
    assert outputs.compare({1: [[1], [2]]}, theirs) is None


def test_the_distance_is_that_of_its_definition():
  ours, theirs = {7: [[1, 2, 1], [1, 1]]}, {7: [[2, 2, 2, 1], [1, 2]]}
  answers = [*ours[7], *theirs[7]]

  def cosine(a, b, n):
    first, second = (
      [tuple(x[i : i + n]) for i in range(len(x) - n + 1)] for x in (a, b)
    )
    dot, *norms = (
      sum(one.count(run) * other.count(run) for run in {*one, *other})
      for one, other in ((first, second), (first, first), (second, second))
    )
    return dot / np.sqrt(np.prod(norms)) if all(norms) else 0

  k = [
    [np.mean([cosine(a, b, n) for n in (1, 2, 3)]) for b in answers]
    for a in answers
  ]
  wanted = (
    k[0][1] + k[2][3] - 2 * np.mean([k[i][j] for i in (0, 1) for j in (2, 3)])
  )
  assert outputs.compare(ours, theirs).distance == pytest.approx(wanted)


def test_the_documents_experiment_is_one(tmp_path):
  text = (ROOT / "docs" / "experiments.md").read_text()
  (program,) = re.findall(r"```python\n(.*?)```", text, re.S)
  scope = {}
  exec(program, scope)
  one = scope["EXPERIMENT"]
  shards = experiment.shards(one, quickstart.get_config(), False)
  trees = [shard.overrides["trees"] for shard in shards]
  assert trees == ["branching:2,1", "branching:4,1", "branching:8,1"]
  unit(tmp_path, [*planted(trees, lambda tree, t: 0.03)])
  (table,) = one.render([command.group(tmp_path)]).tables
  assert [row[0] for row in table.rows] == trees
  assert all(cell != NOTHING for row in table.rows for cell in row)
