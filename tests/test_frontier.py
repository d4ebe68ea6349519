"""The frontier: of answers that are made by hand, the winners are known."""

import itertools

import numpy as np
import pytest

from configs import eagle_bundled, llama3_1b_8b, python_bundled, quickstart
from experiments import experiment, frontier, places, wide
from tests import test_report
from tests.test_experiments import keep_times, unit
from tv_jax import runs
from tv_jax import tree as tree_lib
from tv_jax.runs.report.tables import NOTHING

DRAFT, WEAK = "bundled/draft", "bundled/draft_weak"
TUNED = "bundled/trees/draft-traversal.25.json"
COOL = "bundled/trees/draft_weak_cool-traversal.25.json"
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


def made(folder, one=frontier):
  apart = one.EXPERIMENT.apart
  return one.EXPERIMENT.render([experiment.read(folder, "one", apart=apart)])


def test_the_winner_is_found_and_its_gain_is_paired(tmp_path):
  unit(tmp_path, [*answers(LENGTHS)])
  found = made(tmp_path)
  winners, everything = found.tables
  (row,) = winners.rows
  assert row[:3] == ["one, T = 1", "25", "eagle"]
  assert row[4:6] == ["ot_traversal", "draft-traversal.25"]
  gain, error = map(float, row[-2].removesuffix(" %").split(" ± "))
  assert row[-1] == NOTHING  # no cycle was timed
  assert gain == pytest.approx(8, abs=0.2)
  assert error < 0.2  # of lengths it is 4 %
  assert float(row[3].split(" ± ")[1]) > 0.1
  by = {(cells[1], cells[3]): cells for cells in everything.rows}
  trees = "eagle", "draft-traversal.25"
  assert [*by] == [*itertools.product(trees, places.RULES)]
  assert by["eagle", "traversal"][5:7] == [NOTHING, NOTHING]
  assert by["eagle", "ot_traversal"][5].startswith("+2.5")
  assert by["eagle", "traversal"][2] == "4 8 8 3 2"
  line, check = found.reading
  assert "this misses the goal of 10 % by 2.0" in line
  assert "+5.0 ± 0.0 % with the tree alone" in line
  assert "+2.5 ± 0.0 % with the rule alone" in line
  assert "in 2 runs" in check
  (svg,) = found.figures.values()
  for rule, family in itertools.product(
    places.RULES, ("the paper's trees", "tuned")
  ):
    assert f"{rule}, {family}" in svg


def easy(lines):
  """A worse tree that only the six easiest questions were asked of."""
  mean = {
    one["question"]: np.mean(one["expected"]["traversal"]) for one in lines[:24]
  }
  few = sorted(mean, key=mean.get)[-6:]
  return [*lines[:24], *(one for one in lines[24:] if one["question"] in few)]


def elsewhere(lines):
  """A tree that other questions were asked of."""
  return lines[:24] + [
    one | {"question": one["question"] + 100} for one in lines[24:]
  ]


def sure(lines):
  """Nothing is left to chance, so that nothing has an error."""
  return [
    one | {"expected": dict.fromkeys(places.RULES, one["accepted"])}
    for one in lines
  ]


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
      {"eagle": {"traversal": 4.2, "ot_traversal": 4.1}},
      list,
      "eagle",
      "nothing is longer than traversal on eagle",
    ),
    (
      PAPER | {TUNED: {"traversal": 3.8, "ot_traversal": 3.9}},
      easy,
      "eagle",
      "ot_traversal on eagle",
    ),
    (LENGTHS, elsewhere, "eagle", "ot_traversal on eagle"),
    (LENGTHS, sure, "draft-traversal.25", "farthest from 0 is +0.000"),
  ],
)
def test_what_wins_and_what_is_said(tmp_path, lengths, change, winner, said):
  unit(tmp_path, change([*answers(lengths)]))
  found = made(tmp_path)
  assert found.tables[0].rows[0][5] == winner
  assert said in " ".join(found.reading)


@pytest.mark.parametrize("off", [0.0, 0.1])
def test_a_rule_that_expects_too_little_is_seen(tmp_path, off):
  unit(tmp_path, [*answers(LENGTHS, off=off)])
  check = made(tmp_path).reading[-1]
  sigmas = float(
    check.replace("0 within its error, ", "").split("(")[1].split()[0]
  )
  assert (abs(sigmas) > 4) == bool(off)


def test_what_is_not_there_is_left_out(tmp_path):
  """No base of 25 nodes: no gain, and no winner."""
  some = [*answers({TUNED: LONGER})]
  some[0] = test_report.failed(some[0], "too long")
  unit(tmp_path, some)
  winners, everything = (found := made(tmp_path)).tables
  assert winners.rows == []
  assert {row[5] for row in everything.rows} == {NOTHING}
  assert any("1 ANSWERS FAILED" in note for note in found.notes)


@pytest.mark.parametrize("first", ["whole", "little"])
def test_of_two_runs_that_have_an_answer_the_larger_one_s_counts(
  tmp_path, first
):
  one = [*answers(PAPER)]
  other = [line | {"accepted": [1] * 40} for line in one[:3]]
  both = {"whole": one, "little": other}
  for name, lines in zip("ab", (both.pop(first), *both.values()), strict=True):
    unit(tmp_path / name, lines)
  found = experiment.read(tmp_path, "one").answers
  assert {a.question: [*a.accepted] for a in found} == {
    line["question"]: line["accepted"] for line in one
  }
  assert len(found) == len(one)


def test_all_trees_of_a_size_are_no_larger_and_as_deep():
  for draft, nodes in itertools.product((DRAFT, WEAK), places.BASES):
    known = places.trees(draft, nodes)
    assert next(iter(known)) == places.BASES[nodes]
    assert any("tuned" not in one and "trees/" in one for one in known)
    for name, share in known.items():
      parsed = tree_lib.parse(name)
      assert len(parsed) - 1 <= nodes
      assert parsed.max_depth == 5
      # What the tables say of a draft is what a run does.
      assert share == (0.55 if "weak_cool" in name else 1)
      told = (share, 1) if "bundled" in name else None
      assert tree_lib.temperatures(name) == told


def test_a_cooler_draft_is_asked_where_the_target_is_at_one():
  config = quickstart.get_config("weak")
  shards = experiment.shards(frontier.EXPERIMENT, config, False)
  assert len({shard.name for shard in shards}) == len(shards)
  assert not any(shard.overrides["draft_temperature"] for shard in shards)
  warm = [s for s in shards if "cool" not in s.overrides["trees"]]
  config.temperatures = (0.6, 1.0)
  again = experiment.shards(frontier.EXPERIMENT, config, False)
  assert not any("cool" in shard.overrides["trees"] for shard in again)
  # Beside the shard that is timed, a tuned and an adaptive tree of each size.
  assert len(again) == len(warm) + 1 == len(shards) - 2 * len(frontier.SIZES)


@pytest.mark.parametrize(
  ("config", "name"),
  [
    (quickstart.get_config(), "draft"),
    (quickstart.get_config("weak"), "draft_weak_cool"),
    (eagle_bundled.get_config(), "eagle"),
  ],
)
def test_rules_are_timed_on_trees_of_one_run(config, name):
  shards = experiment.shards(frontier.EXPERIMENT, config, False)
  (own,) = (s for s in shards if s.name == "timed-25")
  settings = runs.from_config(own.of(config))
  assert settings.verifiers == places.RULES
  assert settings.trees == (
    "eagle",
    f"bundled/trees/{name}-traversal.25.json",
    f"adaptive:5,5,5,5,5@bundled/calibrations/{name}.json",
  )
  # Their lengths are of all questions, from runs of their own.
  assert settings.per_task == settings.timing.per_task == 1
  assert settings.timing.rounds == frontier.ROUNDS
  assert {*settings.trees} < {s.overrides["trees"] for s in shards}
  (smoke,) = experiment.shards(frontier.EXPERIMENT, config, True)
  assert not smoke.overrides["timing.per_task"]
  ends = settings.trees[0], settings.trees[-1]
  assert runs.from_config(smoke.of(config)).trees == ends


@pytest.mark.parametrize(
  ("asked", "times", "found"), [(0, 4, 4), (2, 4, 2), (4, 2, 2), (4, 0, None)]
)
def test_how_many_questions_are_asked_and_timed_is_the_user_s(
  asked, times, found
):
  config = quickstart.get_config()
  config.per_task, config.timing.per_task = asked, times
  given = frontier.EXPERIMENT, [config]
  fields = ["timing.per_task", "per_task"]
  experiment.refuse_what_is_swept(*given, fields, False)
  for field, smoke in (("timing.rounds", False), ("per_task", True)):
    with pytest.raises(ValueError, match=f"config.{field} is set by"):
      experiment.refuse_what_is_swept(*given, [field], smoke)
  shards = experiment.shards(frontier.EXPERIMENT, config, False)
  grids = [runs.from_config(shard.of(config)) for shard in shards]
  timed = [grid for grid in grids if grid.timing.per_task]
  assert [grid.per_task for grid in timed] == [found] * (found is not None)
  assert {grid.per_task for grid in grids if grid not in timed} == {asked}


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
    "compile_seconds": 1.0,
    "stages": None,
  }
  # Over both rounds 1, 2 and 3, if seconds and cycles are summed.
  of_question = np.array([0.5, 1.5, 2.5, 1.25, 3.0, 3.5])
  for tree, scale in lengths.items():
    for rule in places.RULES:
      more = scale * (1.05 if rule == places.RAN else 1)
      seconds = 1e-3 * more * of_question * own["cycles"]
      told = {"tree": tree, "verifier": rule, "seconds": seconds.tolist()}
      yield own | told


def test_the_net_gain_is_that_of_length_less_that_of_time(tmp_path):
  unit(tmp_path, [*answers(PAPER | {SHAPED: LONGER})])
  keep_times(tmp_path, [*timed({"eagle": 10.0, SHAPED: 9.0})])
  found = made(tmp_path)
  winners, everything = found.tables
  by = {(cells[1], cells[3]): cells for cells in everything.rows}
  assert by["eagle", "traversal"][-2:] == ["20.00", NOTHING]
  own = by["adaptive:5,5,5,5,5@draft", "ot_traversal"]
  assert own[2] == "5 5 5 5 5"
  assert own[-2] == "18.90"
  # 4.32 / 4.0 in length; 0.9 * 1.05 in time.
  net, error = map(float, own[-1].removesuffix(" %").split(" ± "))
  assert net == pytest.approx(100 * (1.08 / 0.945 - 1), abs=0.3)
  assert error < 0.3  # paired: of cycles' times over questions it is 30 %
  assert by["eagle", "ot_traversal"][-1].startswith("-2.")
  assert winners.rows[0][-1] == own[-1]
  told, fastest = (line for line in found.reading if "net" in line)
  assert "takes -5.5 ± 0.0 % longer" in told
  # 1.05 in length, 0.9 in time: the rule is worth less than it takes.
  assert "the fastest that was timed is traversal on adaptive" in fastest
  assert "net +16." in fastest
  (svg,) = found.figures.values()
  assert "ot_traversal, taking shape" in svg


def test_where_nothing_is_faster_it_is_said(tmp_path):
  unit(tmp_path, [*answers({"eagle": {"traversal": 4.1, "ot_traversal": 4.0}})])
  keep_times(tmp_path, [*timed({"eagle": 10.0})])
  longest, line, _ = made(tmp_path).reading
  assert "nothing is longer than traversal on eagle" in longest
  assert "nothing that was timed is faster" in line
  assert "the nearest is ot_traversal on eagle, net -" in line


def test_times_of_two_runs_are_not_compared(tmp_path):
  for name, tree, ms in (("a", "eagle", 10.0), ("b", SHAPED, 1.0)):
    unit(tmp_path / name, [*answers({tree: PAPER["eagle"]})])
    keep_times(tmp_path / name, [*timed({tree: ms})])
  rows = made(tmp_path).tables[1].rows
  by = {(cells[1], cells[3]): cells for cells in rows}
  assert by["eagle", "ot_traversal"][-2] == "21.00"
  other = by["adaptive:5,5,5,5,5@draft", "ot_traversal"]
  assert other[-2:] == [NOTHING] * 2


@pytest.mark.parametrize(
  ("explicit", "hot", "said"),
  [(0.0, 1.0, "at 0.55"), (0.0, 0.5, "at 0.275"), (0.7, 1.0, "at 0.7")],
)
def test_what_the_draft_drew_at_is_what_is_said(tmp_path, explicit, hot, said):
  """In two runs, of which one asks fewer questions, as what is timed does."""
  told = {"models__draft": WEAK, "draft_temperature": explicit}
  for name, own, few in (("a", PAPER, 0), ("b", {COOL: LONGER}, 1)):
    lines = [*answers(own, temperature=hot)]
    unit(tmp_path / name, lines, per_task=few, **told)
  found = made(tmp_path)
  (svg,) = found.figures.values()
  assert f"ot_traversal, tuned, draft {said}" in svg
  papers = "ot_traversal, the paper's trees"
  assert (f"{papers}, draft at 0.7" in svg) == bool(explicit)
  assert f"with the tree and its draft {said} alone" in found.reading[0]
  with pytest.raises(ValueError, match="per_task"):
    experiment.read(tmp_path, "one")


def wanted(draft, nodes, tuned=True):
  """The trees of a size that a draft has."""
  yield places.BASES[nodes]
  if tuned:
    yield f"bundled/trees/{draft}-traversal.{nodes}.json"
  shape = places.PLACES[nodes]
  yield f"adaptive:{shape}@bundled/calibrations/{draft}.json"


@pytest.mark.parametrize("per_task", [0, 7])
def test_wider_trees_are_asked_a_few_questions_of_each_task(per_task):
  for config, draft in (
    (quickstart.get_config(), "draft"),
    (quickstart.get_config("weak"), "draft_weak_cool"),
    (eagle_bundled.get_config(), "eagle"),
    (python_bundled.get_config(), "draft"),
    (llama3_1b_8b.get_config(), None),
  ):
    config.per_task = per_task
    if per_task:
      given = wide.EXPERIMENT, [config], ["per_task"]
      experiment.refuse_what_is_swept(*given, False)
    shards = experiment.shards(wide.EXPERIMENT, config, False)
    names = [shard.overrides["trees"] for shard in shards]
    assert len({*names}) == len(names)
    for nodes in wide.SIZES:
      own = wanted(draft, nodes, draft != "eagle" or nodes <= 62)
      # Of another pair there are full trees alone.
      assert {*own} <= {*names} if draft else places.BASES[nodes] in names
    if not draft:
      assert len(names) == len(wide.SIZES)
      continue
    asked = [runs.from_config(shard.of(config)) for shard in shards]
    assert {one.per_task for one in asked} == {per_task or wide.FEW}
    assert not any(one.timing.per_task for one in asked)
    # Of a draft that draws cooler no trees of its warmer self.
    warmer = "draft_weak.json", "draft_weak-"
    assert not any(other in one for other in warmer for one in names)
    (smoke,) = experiment.shards(wide.EXPERIMENT, config, True)
    assert smoke.of(config).per_task == 1


def test_wider_trees_have_tables_and_a_figure_of_their_own(tmp_path):
  full, tuned = places.BASES[256], "bundled/trees/draft-traversal.256.json"
  lengths = LENGTHS | {
    full: {"traversal": 4.4, "ot_traversal": 4.4},
    tuned: {"traversal": 4.7, "ot_traversal": 4.84},
  }
  unit(tmp_path, [*answers(lengths)])
  found = made(tmp_path, wide)
  assert [row[1:3] for row in found.tables[0].rows] == [
    ["25", "eagle"],
    ["256", full],
  ]
  gain = float(found.tables[0].rows[1][-2].split()[0])
  assert gain == pytest.approx(10, abs=0.2)
  (svg,) = (found.figures[name] for name in ["wide-one"])
  assert "traversal, full trees" in svg
  assert "traversal, the paper's trees" in svg
  # Of 248 and 256 the numbers would cover each other.
  drawn = [f">{place}</text>" in svg for place in (25, 248, 256)]
  assert drawn == [True, False, True]
  assert any("has no tree of more than 62" in note for note in found.notes)
  assert [*made(tmp_path).figures] == ["frontier-one"]
