"""Frames and statistics of runs, against plain Python over the lines."""

import json
import math
import shutil
import statistics

import numpy as np
import pandas as pd
import pytest

import tv_jax
from tests.lib import grids
from tests.lib.commands import run as command
from tv_jax import runs
from tv_jax.runs import stats
from tv_jax.runs.records import KEY

SEEDS = (0, 1)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
  """A run of two seeds and second turns, with a failure and a fault."""
  lines = [*grids.items()]
  lines += [
    line
    | {"turn": 1, "accepted": line["accepted"][:7]}
    | {"expected": {k: v[:7] for k, v in line["expected"].items()}}
    | {"drafted": line["drafted"][:7] if "drafted" in line else None}
    for line in lines
    if line["task"] == "mt_bench"
  ]
  again = [*grids.items(seed=1)]
  lines += [line | {"seed": 1} for line in again]
  lines[7] = grids.failed(lines[7], "too long")
  lines[9]["faults"] = 3
  place = tmp_path_factory.mktemp("above") / "runs" / "quickstart"
  return grids.unit(place, lines, seeds=SEEDS)


@pytest.fixture(scope="module")
def lines(folder):
  """The lines of the answers that did not fail."""
  text = (folder / "items.jsonl").read_text()
  return [x for x in map(json.loads, text.splitlines()) if "error" not in x]


@pytest.fixture(scope="module")
def cycles(folder):
  return tv_jax.frame(folder)


def of(lines, key, by):
  return [x for x in lines if tuple(x[name] for name in by) == key]


def clustered(values, questions):
  """The mean and its error, by the formula."""
  mean = math.fsum(values) / len(values)
  sums = {}
  for value, question in zip(values, questions, strict=True):
    sums[question] = sums.get(question, 0) + value - mean
  n = len(sums)
  spread = math.fsum(x * x for x in sums.values()) * n / (n - 1)
  return mean, math.sqrt(spread) / len(values), n


def independent(values):
  error = statistics.stdev(values) / len(values) ** 0.5
  return math.fsum(values) / len(values), error, len(values)


def flat(lines, value):
  """Values of all cycles, and the question of each."""
  pairs = [(x, line["question"]) for line in lines for x in value(line)]
  return tuple(zip(*pairs, strict=True))


def compare(found, wanted):
  for key, row in found.iterrows():
    key = key if isinstance(key, tuple) else (key,)
    assert tuple(row) == pytest.approx(wanted(key), rel=1e-11, abs=1e-13)


BY = "task", "tree", "verifier"


def test_a_row_is_a_cycle(cycles, lines):
  whole = [
    (x["task"], x["question"], x["turn"], x["verifier"], x["seed"], i, n, d)
    for x in lines
    for i, n in enumerate(x["accepted"])
    for d in [(x.get("drafted") or [None] * len(x["accepted"]))[i]]
  ]
  columns = ["task", "question", "turn", "verifier", "seed", "cycle", "gained"]
  rows = cycles[[*columns, "drafted"]].astype(object)
  rows = rows.where(rows.notna(), None)
  assert sorted(rows.itertuples(index=False, name=None), key=str) == sorted(
    whole, key=str
  )
  assert cycles.loc[cycles["fault"], "question"].nunique() == 1
  own = cycles[cycles["verifier"] == "traversal"]
  assert (own["expected"] == own["expected_traversal"]).all()
  assert [*cycles.columns[: 1 + len(KEY)]] == ["run", *KEY]


def test_means_are_those_of_the_lines(cycles, lines):
  def by_question(key):
    each = []
    chosen = of(lines, key, BY)
    for question in {x["question"] for x in chosen}:
      by_seed = [
        [
          n
          for x in chosen
          if (x["question"], x["seed"]) == (question, seed)
          for n in x["accepted"]
        ]
        for seed in SEEDS
      ]
      each.append(statistics.fmean(statistics.fmean(x) for x in by_seed if x))
    return independent(each)

  compare(stats.by_question(cycles, BY), by_question)
  compare(
    stats.by_token(cycles, BY),
    lambda key: clustered(*flat(of(lines, key, BY), lambda x: x["accepted"])),
  )
  compare(
    stats.by_token(cycles),
    lambda key: clustered(*flat(lines, lambda x: x["accepted"])),
  )


def test_gains_and_checks_are_those_of_the_lines(cycles, lines):
  drafted = cycles[cycles["tree"] != "none"]

  def above(x, base):
    own = x["expected"][x["verifier"]]
    return [a - b for a, b in zip(own, base, strict=True)]

  def percent(key):
    """The error of a ratio of means: of `ours - ratio * theirs`."""
    chosen = of(lines, key, BY)
    ours, who = flat(chosen, lambda x: x["expected"][x["verifier"]])
    theirs, _ = flat(chosen, lambda x: x["expected"]["token_level"])
    share = math.fsum(ours) / math.fsum(theirs)
    left = [a - share * b for a, b in zip(ours, theirs, strict=True)]
    _, error, n = clustered(left, who)
    mean = math.fsum(theirs) / len(theirs)
    return 100 * (share - 1), 100 * error / mean, n

  def minus(key):
    chosen = of(lines, key, BY)
    return clustered(
      *flat(chosen, lambda x: above(x, x["expected"]["token_level"]))
    )

  def check(key):
    values, _ = flat(of(lines, key, BY), lambda x: above(x, x["accepted"]))
    return independent([-value for value in values])

  compare(stats.gain(drafted, BY), percent)
  compare(stats.difference(drafted, BY), minus)
  compare(stats.check(drafted, BY), check)


def test_positions_are_those_of_the_lines(cycles, lines):
  by = "tree", "verifier"

  def share(key, conditional):
    *key, d = key
    values, who = flat(of(lines, tuple(key), by), lambda x: x["accepted"])
    pairs = [
      (n > d, question)
      for n, question in zip(values, who, strict=True)
      if n >= d or not conditional
    ]
    values, who = zip(*pairs, strict=True)
    if len({*who}) < 2:
      return pytest.approx(
        (sum(values) / len(values), math.nan, 1), nan_ok=True
      )
    return clustered(values, who)

  for conditional in (False, True):
    found = stats.reached(cycles, by, conditional=conditional)
    for key, row in found.iterrows():
      wanted = share(key, conditional)
      assert tuple(row) == pytest.approx(
        wanted, rel=1e-11, abs=1e-13, nan_ok=True
      )


def test_answers_have_their_errors_and_the_shares_of_right_ones(folder, lines):
  answers = runs.answers(folder)
  assert answers["error"].notna().sum() == 1
  assert answers["faults"].sum() == 3
  sound = answers[answers["right"].notna()]
  found = stats.by_question(sound, ["verifier"], "right")

  def wanted(key):
    each = {}
    for x in lines:
      if x["verifier"] == key[0]:
        seeds = each.setdefault(x["question"], {})
        seeds.setdefault(x["seed"], []).append(x["right"])
    return independent(
      [
        statistics.fmean(statistics.fmean(x) for x in seeds.values())
        for seeds in each.values()
      ]
    )

  compare(found, wanted)


def test_runs_are_read_together(folder, tmp_path):
  one, other = tv_jax.frame(folder), tmp_path / "run"
  shutil.copytree(folder, other)
  both = tv_jax.frame([folder, other])
  assert len(both) == 2 * len(one)
  assert [*both["run"].unique()] == [str(folder), str(other)]
  assert len(tv_jax.frame(folder.parent)) == len(one)
  assert len(tv_jax.frame([folder, folder.parent])) == len(one)
  shutil.rmtree(other)
  with pytest.raises(ValueError, match="there is no run in it"):
    tv_jax.frame(tmp_path)


def test_the_cycles_are_written_as_csv(folder, cycles):
  path = folder.with_suffix(".csv")
  done = command(str(folder), f"--csv={path}", program="tv_jax.report")
  assert done.stdout == f"{path}\n", done.stderr
  again = pd.read_csv(path)
  assert [*again.columns] == [*cycles.columns]
  assert again["gained"].sum() == cycles["gained"].sum()


def test_a_number_that_is_not_known_makes_its_mean_unknown(tmp_path):
  made = [*grids.items()]
  one = next(x for x in made if x["verifier"] == "traversal")
  one["expected"]["traversal"][3] = None  # a NaN, as JSON has it
  cycles = tv_jax.frame(grids.unit(tmp_path, made))
  by = ["tree", "verifier"]
  means = stats.by_question(cycles, by, "expected")["mean"]
  assert means[one["tree"], "traversal"] != means[one["tree"], "traversal"]
  assert means["eagle", "traversal"] > 1
  for found in (stats.gain(cycles, by), stats.check(cycles, by)):
    assert found["mean"].isna()[one["tree"], "traversal"]


def test_a_run_without_times_has_a_frame_of_them_without_rows(folder):
  times = runs.timings(folder)
  assert not len(times)
  assert {"run", "question", "verifier", "tokens", "seconds"} <= {*times}


def timed(verifier="traversal", **fields):
  return pd.DataFrame(
    {
      "run": "a",
      "asked": [0, 1],
      "question": [1, 2],
      "tree": "none" if verifier == "plain" else "eagle",
      "proposal": "none" if verifier == "plain" else "top_k",
      "temperature": 1.0,
      "verifier": verifier,
      "tokens": [10, 30],
      "seconds": [1.0, 2.0],
      "cycles": [5, 10],
    }
    | fields
  )


def test_what_all_questions_share_is_no_error_of_a_comparison():
  """Questions differ in speed, so they are compared pair by pair."""
  speed = stats.ratio(timed(), (), ["tokens"], ["seconds"]).loc[0]
  assert speed["mean"] == pytest.approx(40 / 3)
  assert speed["error"] > 1
  both = pd.concat([timed("plain"), timed(tokens=[20, 60])])
  beside = stats.with_base(both, "plain").query("verifier == 'traversal'")
  over, under = ["tokens", "seconds_base"], ["seconds", "tokens_base"]
  longer = stats.ratio(beside, (), over, under).loc[0]
  assert (longer["mean"], longer["error"]) == pytest.approx((2, 0))


@pytest.mark.parametrize(
  ("share", "error", "mean"), [(0.9, 1 / 0.9, 20), (1.1, 1 / 1.1, -1.818182)]
)
def test_the_net_gain_is_in_tokens_a_second(share, error, mean):
  slower = timed(seconds=[share, 2 * share])
  times = pd.concat([timed("token_level"), slower])
  longer = pd.DataFrame(
    {"mean": [8.0], "error": [1.0], "n": [9]}, index=["traversal"]
  )
  found = stats.net(longer, times, ["verifier"], "token_level")
  found = found.loc["traversal"]
  assert tuple(found) == pytest.approx((mean, error, 2), rel=1e-6)


def test_the_error_of_a_quotient_is_that_of_many_draws():
  """The error of a ratio of sums, against the spread of simulated ratios."""
  rng = np.random.default_rng(0)
  question = 1 + 0.3 * rng.random((1000, 200, 4)).repeat(2, 1)
  values = question * (1 + 0.1 * rng.random((1000, 400, 4)))
  draws = pd.DataFrame(values.reshape(-1, 4), columns=[*"abcd"])
  draws["draw"] = np.arange(1000).repeat(400)
  draws["question"] = np.tile(np.arange(200).repeat(2), 1000)
  found = stats.ratio(draws, "draw", ["a", "b"], ["c", "d"])
  error = found["error"].mean()
  assert error == pytest.approx(found["mean"].std(ddof=1), rel=0.05)
  # The rounds of a question are not independent draws.
  one = draws[draws["draw"] == 0].assign(question=range(400))
  apart = stats.ratio(one, (), ["a", "b"], ["c", "d"])
  assert apart["error"][0] < 0.8 * error


def test_one_column_may_be_a_text(cycles):
  for mean in (stats.by_token, stats.by_question, stats.reached):
    pd.testing.assert_frame_equal(mean(cycles, "tree"), mean(cycles, ["tree"]))


def test_a_gain_is_that_of_the_other_rules_alone(cycles):
  for statistic in (stats.gain, stats.difference):
    by_rule = statistic(cycles, ["tree", "verifier"])
    pooled = statistic(cycles, "tree")
    assert {rule for _, rule in by_rule.index} == {"traversal"}
    own = [*by_rule.loc["eagle", "traversal"]]
    assert [*pooled.loc["eagle"]] == pytest.approx(own, rel=1e-9)
