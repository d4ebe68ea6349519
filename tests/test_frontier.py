"""The frontier: of answers that are made by hand, the winners are known."""

import itertools
import json

import numpy as np
import pytest

from configs import (
  eagle_bundled,
  llama3_1b_8b,
  python_bundled,
  quickstart,
)
from experiments import experiment, frontier, wide
from tests.test_experiments import unit
from tests.test_report import failed
from tv_jax import runs
from tv_jax.runs.report import tables

DRAFT, WEAK = "bundled/draft", "bundled/draft_weak"
TUNED = "bundled/trees/draft-traversal.25.json"
COOL = [
  name
  for nodes in frontier.SIZES
  for name in (
    f"bundled/trees/draft_weak_cool-traversal.{nodes}.json",
    f"adaptive:{frontier.PLACES[nodes]}@bundled/calibrations/"
    "draft_weak_cool.json",
  )
]
# What each rule expects of each tree, in the mean.
LENGTHS = {
  "eagle": {"traversal": 4.0, "ot_traversal": 4.1},
  TUNED: {"traversal": 4.2, "ot_traversal": 4.32},
}


def answers(lengths, questions=24, off=0.0, seed=0):
  """Questions differ by far more than rules and trees do."""
  rng = np.random.default_rng(seed)
  of_question = rng.uniform(0.6, 1.4, questions)
  of_question /= of_question.mean()
  for (tree, by_rule), question in itertools.product(
    lengths.items(), range(questions)
  ):
    scale = of_question[question] * rng.uniform(0.99, 1.01, 40)
    own = {name: scale * mean for name, mean in by_rule.items()}
    floor = np.floor(own[frontier.RAN] + off).astype(int)
    more = rng.random(40) < own[frontier.RAN] + off - floor
    yield {
      "task": "qa",
      "question": question + 1,
      "turn": 0,
      "tree": tree,
      "proposal": "without_replacement",
      "verifier": frontier.RAN,
      "temperature": 1.0,
      "seed": seed,
      "tokens": [1, 2],
      "text": "a",
      "right": True,
      "stops": [1],
      "faults": 0,
      "accepted": (floor + more).tolist(),
      "expected": {name: values.tolist() for name, values in own.items()},
    }


def made(folder):
  return frontier.render([experiment.read(folder, "one")])


def test_the_winner_is_found_and_its_gain_is_paired(tmp_path):
  unit(tmp_path, [*answers(LENGTHS)])
  found = made(tmp_path)
  winners, everything = found.tables
  (row,) = winners.rows
  assert row[:3] == ["one, T = 1", "25", "eagle"]
  assert row[4:6] == ["ot_traversal", "draft-traversal.25"]
  gain, error = map(float, row[-2].removesuffix(" %").split(" ± "))
  assert row[-1] == tables.NOTHING  # no cycle was timed
  assert gain == pytest.approx(8, abs=0.2)
  assert error < 0.2  # of lengths it is 4 %
  assert float(row[3].split(" ± ")[1]) > 0.1
  assert [cells[1:4:2] for cells in everything.rows] == [
    [tree, rule]
    for tree in ("eagle", "draft-traversal.25")
    for rule in ("traversal", "ot_traversal")
  ]
  by = {(cells[1], cells[3]): cells for cells in everything.rows}
  assert by["eagle", "traversal"][5] == tables.NOTHING
  assert by["eagle", "traversal"][6] == tables.NOTHING
  assert by["eagle", "ot_traversal"][5].startswith("+2.5")
  assert by["eagle", "traversal"][2] == "4 8 8 3 2"
  line, check = found.reading
  assert "the goal of 10 % is missed by 2.0" in line
  assert "that tree alone +5.0" in line
  assert "that rule alone +2.5" in line
  assert "in 2 runs" in check


def test_ten_percent_are_the_goal(tmp_path):
  lengths = LENGTHS | {TUNED: {"traversal": 4.2, "ot_traversal": 4.48}}
  unit(tmp_path, [*answers(lengths)])
  assert "the goal of 10 % is reached" in made(tmp_path).reading[0]


def test_where_nothing_is_longer_it_is_said(tmp_path):
  lengths = {"eagle": {"traversal": 4.2, "ot_traversal": 4.1}}
  unit(tmp_path, [*answers(lengths)])
  found = made(tmp_path)
  assert "nothing is longer than traversal on eagle" in found.reading[0]
  assert found.tables[0].rows[0][-2:] == [tables.NOTHING] * 2


def test_a_tree_that_was_asked_the_easy_questions_alone_wins_nothing(tmp_path):
  paper = [*answers({"eagle": LENGTHS["eagle"]})]
  worse = {name: 0.95 * mean for name, mean in LENGTHS["eagle"].items()}
  tuned = [*answers({TUNED: worse})]
  mean = {
    one["question"]: np.mean(one["expected"]["traversal"]) for one in paper
  }
  easy = sorted(mean, key=mean.get)[-6:]
  unit(tmp_path, [*paper, *(one for one in tuned if one["question"] in easy)])
  (row,) = made(tmp_path).tables[0].rows
  assert row[5] == "eagle"


def test_trees_that_share_no_question_are_not_compared(tmp_path):
  paper = [*answers({"eagle": LENGTHS["eagle"]})]
  tuned = [
    one | {"question": one["question"] + 100}
    for one in answers({TUNED: LENGTHS[TUNED]})
  ]
  unit(tmp_path, [*paper, *tuned])
  found = made(tmp_path)
  assert found.tables[0].rows[0][5] == "eagle"
  assert found.tables[1].rows[-1][5] == tables.NOTHING


def test_where_nothing_is_left_to_chance_there_is_no_error(tmp_path):
  sure = [
    one | {"expected": dict.fromkeys(frontier.RULES, one["accepted"])}
    for one in answers(LENGTHS)
  ]
  unit(tmp_path, sure)
  text = " ".join(made(tmp_path).reading)
  assert "farthest from 0 at +0.000" in text


def test_a_rule_that_expects_too_little_is_seen(tmp_path):
  unit(tmp_path, [*answers(LENGTHS, off=0.1)])
  check = made(tmp_path).reading[-1]
  sigmas = float(check.split("(")[-1].split()[0])
  assert sigmas > 4
  unit(tmp_path / "sound", [*answers(LENGTHS)])
  check = made(tmp_path / "sound").reading[-1]
  assert "0 within" in check or float(check.split("(")[-1].split()[0]) < 4


def test_what_is_not_there_is_left_out(tmp_path):
  """No base of 25 nodes: no gain, and no winner."""
  some = [*answers({TUNED: LENGTHS[TUNED]})]
  some[0] = failed(some[0], "too long")
  unit(tmp_path, some)
  winners, everything = (found := made(tmp_path)).tables
  assert winners.rows == []
  assert {row[5] for row in everything.rows} == {tables.NOTHING}
  assert any("1 ANSWERS FAILED" in note for note in found.notes)


def test_seeds_are_pooled_by_question(tmp_path):
  one, other = ([*answers(LENGTHS, seed=seed)] for seed in (0, 1))
  unit(tmp_path / "a", one)
  unit(tmp_path / "b", other, seeds=(1,))
  (row, *_) = made(tmp_path).tables[1].rows
  means = [
    np.mean([np.mean(a["expected"]["traversal"]) for a in own])
    for own in (
      [a for a in some if a["tree"] == "eagle"] for some in (one, other)
    )
  ]
  assert float(row[4].split()[0]) == pytest.approx(np.mean(means), abs=1e-3)


def test_the_figure_has_a_line_for_each_rule_and_family(tmp_path):
  unit(tmp_path, [*answers(LENGTHS)])
  (svg,) = made(tmp_path).figures.values()
  for rule in frontier.RULES:
    for family in ("the paper's trees", "tuned"):
      assert f"{rule}, {family}" in svg


def test_a_cooler_draft_is_asked_where_the_target_is_at_one():
  config = quickstart.get_config("weak")
  shards = experiment.shards(frontier.EXPERIMENT, config, False)
  cool = [s for s in shards if s.overrides["trees"] in COOL]
  assert len(cool) == len(COOL)
  config.temperatures = (0.6, 1.0)
  again = experiment.shards(frontier.EXPERIMENT, config, False)
  assert len(again) == len(shards) - len(cool)
  assert not any("cool" in shard.overrides["trees"] for shard in again)


def test_all_trees_of_a_size_are_no_larger_and_as_deep():
  from tv_jax import tree

  for draft, nodes in itertools.product((DRAFT, WEAK), frontier.BASES):
    known = frontier.trees(draft, nodes)
    assert next(iter(known)) == frontier.BASES[nodes]
    assert any("tuned" not in one and "trees/" in one for one in known)
    for name in known:
      assert len(tree.parse(name)) - 1 <= nodes
      assert tree.parse(name).max_depth == 5


def test_trees_that_take_shape_are_among_them(tmp_path):
  config = quickstart.get_config()
  shards = experiment.shards(frontier.EXPERIMENT, config, False)
  for nodes, places in ((62, "6,14,14,14,14"), (25, "5,5,5,5,5")):
    (name,) = (t for t in frontier.trees(DRAFT, nodes) if "adaptive" in t)
    (own,) = (s for s in shards if s.overrides["trees"] == name)
    assert own.name == f"adaptive-{places.replace(',', '-')}-draft"
    assert runs.from_config(own.of(config)).trees == (name,)
  unit(tmp_path, [*answers(LENGTHS | {name: LENGTHS[TUNED]})])
  found = made(tmp_path)
  row = found.tables[1].rows[-1]
  assert row[1:4] == ["adaptive:5,5,5,5,5@draft", "5 5 5 5 5", "ot_traversal"]
  (svg,) = found.figures.values()
  assert "ot_traversal, taking shape" in svg


def test_the_draft_is_as_cool_as_a_tree_s_file_says():
  """What the tables say of it is what a run does."""
  from tv_jax import tree

  config = quickstart.get_config("weak")
  shards = experiment.shards(frontier.EXPERIMENT, config, False)
  names = [shard.name for shard in shards]
  assert len({*names}) == len(names)
  assert not any(shard.overrides["draft_temperature"] for shard in shards)
  for nodes in frontier.BASES:
    for name, share in frontier.trees(WEAK, nodes).items():
      assert share == (0.55 if "weak_cool" in name else 1)
      tuned = (share, 1) if "bundled" in name else None
      assert tree.temperatures(name) == tuned


@pytest.mark.parametrize(
  ("arg", "name"), [("", "draft"), ("weak", "draft_weak_cool")]
)
def test_rules_are_timed_on_trees_of_one_run(arg, name):
  config = quickstart.get_config(arg)
  shards = experiment.shards(frontier.EXPERIMENT, config, False)
  (own,) = (s for s in shards if s.name == "timed-25")
  settings = runs.from_config(own.of(config))
  assert settings.verifiers == frontier.RULES
  assert settings.trees == (
    "eagle",
    f"bundled/trees/{name}-traversal.25.json",
    f"adaptive:5,5,5,5,5@bundled/calibrations/{name}.json",
  )
  # Their lengths are of all questions, from runs of their own.
  assert settings.per_task == settings.timing.per_task == 1
  assert settings.timing.rounds == frontier.ROUNDS
  others = [s.overrides["trees"] for s in shards if s is not own]
  assert {*settings.trees} < {*others}
  (smoke,) = experiment.shards(frontier.EXPERIMENT, config, True)
  assert not smoke.overrides["timing.per_task"]
  ends = settings.trees[0], settings.trees[-1]
  assert runs.from_config(smoke.of(config)).trees == ends
  config.temperatures = (0.6,)
  shards = experiment.shards(frontier.EXPERIMENT, config, False)
  (own,) = (s for s in shards if s.name == "timed-25")
  assert "cool" not in own.overrides["trees"]
  assert len(own.overrides["trees"].split()) == 3


@pytest.mark.parametrize(
  ("asked", "times", "found"), [(0, 4, 4), (2, 4, 2), (4, 2, 2), (4, 0, None)]
)
def test_how_many_questions_are_timed_is_the_user_s(asked, times, found):
  config = quickstart.get_config()
  config.per_task, config.timing.per_task = asked, times
  told = ["timing.per_task", "per_task"]
  experiment.refuse_what_is_swept(frontier.EXPERIMENT, [config], told, False)
  shards = experiment.shards(frontier.EXPERIMENT, config, False)
  grids = [runs.from_config(shard.of(config)) for shard in shards]
  timed = [grid for grid in grids if grid.timing.per_task]
  assert [grid.per_task for grid in timed] == [found] * (found is not None)
  assert {grid.per_task for grid in grids if grid not in timed} == {asked}


@pytest.mark.parametrize("field", ["timing.rounds", "timing.stages"])
def test_how_it_is_timed_is_not(field):
  told = frontier.EXPERIMENT, [quickstart.get_config()], [field]
  with pytest.raises(ValueError, match=f"config.{field} is set by"):
    experiment.refuse_what_is_swept(*told, False)


def test_how_many_questions_are_asked_is_the_user_s(tmp_path):
  config = quickstart.get_config()
  told = frontier.EXPERIMENT, [config], ["per_task"]
  experiment.refuse_what_is_swept(*told, False)
  config.per_task = 4
  asked = [
    runs.from_config(one.of(config)).per_task
    for one in experiment.shards(frontier.EXPERIMENT, config, False)
  ]
  assert {*asked} == {1, 4}
  with pytest.raises(ValueError, match=r"config\.per_task"):
    experiment.refuse_what_is_swept(*told, True)


def timed(lengths):
  """Each question has cycles of its own time, longer in the second round."""
  own = {
    "task": "qa",
    "proposal": "without_replacement",
    "temperature": 1.0,
    "questions": [1, 2, 3, 1, 2, 3],
    "tasks": ["qa"] * 6,
    "tokens": [10] * 6,
    "cycles": [2, 4, 6, 4, 2, 6],
  }
  # Over both rounds 1, 2 and 3, if seconds and cycles are summed.
  of_question = np.array([0.5, 1.5, 2.5, 1.25, 3.0, 3.5])
  for tree, scale in lengths.items():
    for rule in frontier.RULES:
      more = scale * (1.05 if rule == frontier.RAN else 1)
      seconds = 1e-3 * more * of_question * own["cycles"]
      yield own | {
        "tree": tree,
        "verifier": rule,
        "seconds": seconds.tolist(),
        "compile_seconds": 1.0,
        "stages": None,
      }


def test_the_net_gain_is_that_of_length_less_that_of_time(tmp_path):
  shaped = "adaptive:5,5,5,5,5@bundled/calibrations/draft.json"
  lengths = {"eagle": LENGTHS["eagle"], shaped: LENGTHS[TUNED]}
  unit(tmp_path, [*answers(lengths)])
  methods = [*timed({"eagle": 10.0, shaped: 9.0})]
  told = {"environment": {"date": "2026-01-02"}, "methods": methods}
  (tmp_path / "timing.json").write_text(json.dumps(told))
  found = made(tmp_path)
  winners, everything = found.tables
  by = {(cells[1], cells[3]): cells for cells in everything.rows}
  assert by["eagle", "traversal"][-2:] == ["20.00", tables.NOTHING]
  name = "adaptive:5,5,5,5,5@draft"
  assert by[name, "ot_traversal"][-2] == "18.90"
  # 4.32 / 4.0 in length; 0.9 * 1.05 in time.
  net, error = map(
    float, by[name, "ot_traversal"][-1].removesuffix(" %").split(" ± ")
  )
  assert net == pytest.approx(100 * (1.08 / 0.945 - 1), abs=0.3)
  assert error < 0.3  # paired: of cycles' times over questions it is 30 %
  assert by["eagle", "ot_traversal"][-1].startswith("-2.")
  (row,) = winners.rows
  assert row[-1] == by[name, "ot_traversal"][-1]
  told, fastest = (line for line in found.reading if "net" in line)
  assert "takes -5.5 ± 0.0 % longer" in told
  # 1.05 in length, 0.9 in time: the rule is worth less than it takes.
  assert "fastest of what was timed is traversal on adaptive" in fastest
  assert "net +16." in fastest


def test_times_of_two_runs_are_not_compared(tmp_path):
  shaped = "adaptive:5,5,5,5,5@bundled/calibrations/draft.json"
  for name, tree, ms in (("a", "eagle", 10.0), ("b", shaped, 1.0)):
    unit(tmp_path / name, [*answers({tree: LENGTHS["eagle"]})])
    told = {"environment": {}, "methods": [*timed({tree: ms})]}
    (tmp_path / name / "timing.json").write_text(json.dumps(told))
  rows = made(tmp_path).tables[1].rows
  by = {(cells[1], cells[3]): cells for cells in rows}
  assert by["eagle", "ot_traversal"][-2] == "21.00"
  other = by["adaptive:5,5,5,5,5@draft", "ot_traversal"]
  assert other[-2:] == [tables.NOTHING] * 2


def test_an_answer_that_two_runs_have_is_one(tmp_path):
  one = [*answers({"eagle": LENGTHS["eagle"]})]
  for name in ("a", "b"):
    unit(tmp_path / name, one)
  assert len(experiment.read(tmp_path, "one").answers) == len(one)


@pytest.mark.parametrize("first", ["whole", "little"])
def test_of_two_runs_that_have_an_answer_the_larger_one_s_counts(
  tmp_path, first
):
  one = [*answers({"eagle": LENGTHS["eagle"]})]
  other = [line | {"accepted": [1] * 40} for line in one[:3]]
  kinds = {"whole": one, "little": other}
  second = next(name for name in kinds if name != first)
  unit(tmp_path / "a", kinds[first])
  unit(tmp_path / "b", kinds[second])
  found = experiment.read(tmp_path, "one").answers
  assert {a.question: [*a.accepted] for a in found} == {
    line["question"]: line["accepted"] for line in one
  }


@pytest.mark.parametrize(
  ("explicit", "hot", "said"),
  [(0.0, 1.0, "at 0.55"), (0.0, 0.5, "at 0.275"), (0.7, 1.0, "at 0.7")],
)
def test_what_the_draft_drew_at_is_what_is_said(tmp_path, explicit, hot, said):
  lines = answers({"eagle": LENGTHS["eagle"], COOL[2]: LENGTHS[TUNED]})
  told = {"models__draft": WEAK, "draft_temperature": explicit}
  unit(tmp_path, [one | {"temperature": hot} for one in lines], **told)
  (svg,) = made(tmp_path).figures.values()
  assert f"ot_traversal, tuned, draft {said}" in svg
  papers = "ot_traversal, the paper's trees"
  assert (f"{papers}, draft at 0.7" in svg) == bool(explicit)


def test_where_nothing_is_faster_it_is_said(tmp_path):
  unit(tmp_path, [*answers({"eagle": LENGTHS["eagle"]})])
  methods = [*timed({"eagle": 10.0})]
  told = {"environment": {"date": "2026-01-02"}, "methods": methods}
  (tmp_path / "timing.json").write_text(json.dumps(told))
  found = made(tmp_path).reading
  (line,) = (one for one in found if "nothing that was" in one)
  assert "nearest is ot_traversal on eagle, net -2." in line
  worse = {name: 4.0 - 0.1 * i for i, name in enumerate(frontier.RULES)}
  other = tmp_path / "worse"
  unit(other, [*answers({"eagle": worse})])
  (other / "timing.json").write_text(json.dumps(told))
  longest, line, _ = made(other).reading
  assert "nothing is longer than traversal on eagle" in longest
  assert "nothing that was timed is faster" in line


def test_of_another_pair_the_papers_trees_alone_are_asked():
  config = llama3_1b_8b.get_config()
  shards = experiment.shards(frontier.EXPERIMENT, config, False)
  trees = [shard.overrides["trees"] for shard in shards]
  assert trees == ["chain:5", "eagle", "eagle", "kary:2x5"]


def test_of_the_eagle_head_trees_were_tuned():
  config = eagle_bundled.get_config()
  shards = experiment.shards(frontier.EXPERIMENT, config, False)
  for shard in shards:
    runs.from_config(shard.of(config))
  (timed,) = (s.overrides["trees"] for s in shards if s.name == "timed-25")
  shaped = "adaptive:5,5,5,5,5@bundled/calibrations/eagle.json"
  assert timed == f"eagle bundled/trees/eagle-traversal.25.json {shaped}"
  assert len(shards) == 1 + 3 * len(frontier.SIZES)


def test_what_is_timed_may_ask_fewer_questions(tmp_path):
  cool = "bundled/trees/draft_weak_cool-traversal.25.json"
  weak = {"models__draft": WEAK}
  unit(tmp_path / "a", [*answers({"eagle": LENGTHS["eagle"]})], **weak)
  unit(
    tmp_path / "b",
    [*answers({cool: LENGTHS[TUNED]})],
    per_task=1,
    **weak,
  )
  apart = frontier.EXPERIMENT.apart
  both = experiment.read(tmp_path, "one", apart=apart)
  found = frontier.render([both])
  assert "that tree and its draft at 0.55 alone +5.0" in found.reading[0]
  (svg,) = found.figures.values()
  assert "ot_traversal, tuned, draft at 0.55" in svg
  with pytest.raises(ValueError, match="per_task"):
    experiment.read(tmp_path, "one")


def test_wider_trees_are_asked_a_few_questions_of_each_task():
  for arg, draft in (("", "draft"), ("weak", "draft_weak_cool")):
    config = quickstart.get_config(arg)
    shards = experiment.shards(wide.EXPERIMENT, config, False)
    asked = [runs.from_config(shard.of(config)) for shard in shards]
    found = {one.trees[0] for one in asked}
    assert len(found) == len(asked)
    assert {one.per_task for one in asked} == {wide.FEW}
    assert not any(one.timing.per_task for one in asked)
    for nodes in wide.SIZES:
      places = frontier.PLACES[nodes]
      assert {
        frontier.BASES[nodes],
        f"bundled/trees/{draft}-traversal.{nodes}.json",
        f"adaptive:{places}@bundled/calibrations/{draft}.json",
      } <= found
    # Of a draft that draws cooler no trees of its warmer self.
    warmer = "draft_weak.json", "draft_weak-"
    assert not any(other in one for other in warmer for one in found)


def test_how_many_questions_wider_trees_are_asked_is_the_user_s():
  config = quickstart.get_config()
  config.per_task = 7
  shards = experiment.shards(wide.EXPERIMENT, config, False)
  assert {shard.of(config).per_task for shard in shards} == {7}
  experiment.refuse_what_is_swept(
    wide.EXPERIMENT, [config], ["per_task"], False
  )
  for config.per_task in (0, 7):
    (one,) = experiment.shards(wide.EXPERIMENT, config, True)
    assert one.of(config).per_task == 1


def test_of_another_pair_wider_trees_are_full_ones():
  config = llama3_1b_8b.get_config()
  shards = experiment.shards(wide.EXPERIMENT, config, False)
  assert [shard.overrides["trees"] for shard in shards] == [
    frontier.BASES[nodes] for nodes in wide.SIZES
  ]


def test_of_the_eagle_head_as_many_as_were_tuned_are_asked():
  config = eagle_bundled.get_config()
  shards = experiment.shards(wide.EXPERIMENT, config, False)
  wanted = []
  for nodes in wide.SIZES:
    wanted.append(frontier.BASES[nodes])
    if nodes <= 62:
      wanted.append(f"bundled/trees/eagle-traversal.{nodes}.json")
    places = frontier.PLACES[nodes]
    wanted.append(f"adaptive:{places}@bundled/calibrations/eagle.json")
  assert [shard.overrides["trees"] for shard in shards] == wanted


def test_the_runs_of_python_are_runs():
  config = python_bundled.get_config()
  for given, asked in ((0, wide.FEW), (24, 24)):
    config.per_task = given
    for shard in experiment.shards(wide.EXPERIMENT, config, False):
      settings = runs.from_config(shard.of(config))
      assert settings.per_task == asked
      assert settings.questions == "python"


def test_wider_trees_have_tables_and_a_figure_of_their_own(tmp_path):
  full, tuned = frontier.BASES[256], "bundled/trees/draft-traversal.256.json"
  lengths = LENGTHS | {
    full: {"traversal": 4.4, "ot_traversal": 4.4},
    tuned: {"traversal": 4.7, "ot_traversal": 4.84},
  }
  unit(tmp_path, [*answers(lengths)])
  found = wide.EXPERIMENT.render([experiment.read(tmp_path, "one")])
  assert [row[1:3] for row in found.tables[0].rows] == [
    ["25", "eagle"],
    ["256", full],
  ]
  gain = float(found.tables[0].rows[1][-2].split()[0])
  assert gain == pytest.approx(10, abs=0.2)
  assert [*found.figures] == ["wide-one"]
  assert "traversal, full trees" in found.figures["wide-one"]
  assert "traversal, the paper's trees" in found.figures["wide-one"]
  (svg,) = found.figures.values()
  # Of 248 and 256 the numbers would cover each other.
  drawn = [f">{place}</text>" in svg for place in (25, 248, 256)]
  assert drawn == [True, False, True]
  assert any("has no tree: full trees" in note for note in found.notes)
  plain = frontier.render([experiment.read(tmp_path, "one")])
  assert [*plain.figures] == ["frontier-one"]
