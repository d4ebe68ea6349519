"""Experiments: what they make of answers that are made by hand."""

import dataclasses
import itertools
import json
import re

import numpy as np
import pytest

from configs import eagle_bundled, llama3_1b_8b, quickstart
from experiments import (
  as_published,
  command,
  comparing,
  example,
  experiment,
  main_table,
  names,
  outputs,
  paper,
  published,
  results,
)
from tests import test_report
from tests.stores import ROOT
from tv_jax import certify, runs
from tv_jax.engine.estimates import Estimate
from tv_jax.runs import report
from tv_jax.runs.records import Answer, Method
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


def test_the_papers_numbers_stand_beside_ones_own(tmp_path, capsys):
  answers = [*test_report.items()]
  test_report.unit(tmp_path, answers)
  groups = [command.group(tmp_path)]
  command.make(main_table.EXPERIMENT, groups, tmp_path)
  rows = test_report.rows_of(tmp_path / "main_table.csv")
  assert len(rows) == 3 * (6 + 3)
  by = {(row["table"].split(", ")[1], row["task"]): row for row in rows}
  for tree, task in itertools.product(paper.TREES, paper.TASKS):
    printed = paper.LLAMA3.acceptance[task][tree]
    row = by[tree, TASKS[task]]
    assert row["the paper Tra.V"].split()[0] == f"{printed.traversal.mean:.2f}"
    assert row["the paper Delta"] == f"{printed.delta:+.1f}%"
  own = [
    np.mean(item["accepted"])
    for item in answers
    if (item["tree"], item["verifier"]) == ("eagle", "traversal")
  ]
  average = by["eagle", "Avg. accept."]["this run Tra.V"]
  assert average.startswith(f"{np.mean(own):.2f}")
  assert by["kary:2x5", "QA"]["this run Tra.V"] == NOTHING
  assert by["chain:5", "Speed-up"]["the paper Tra.V"] == "1.52x"
  assert "RTX A6000" in capsys.readouterr().out
  assert (tmp_path / "main_table.tex").read_text().count("tabular") == 6


def timed(tree, rule, tokens, seconds, cycles):
  proposal = "none" if tree == "none" else "without_replacement"
  return {
    **{"tree": tree, "proposal": proposal, "verifier": rule},
    **{"temperature": 1.0, "questions": [1, 2, 3], "tasks": ["qa"] * 3},
    **{"tokens": tokens, "seconds": seconds, "cycles": cycles},
    **{"compile_seconds": 1.0, "stages": None},
  }


def keep_times(folder, methods):
  told = {"environment": {"date": "2026-01-02"}, "methods": methods}
  (folder / "timing.json").write_text(json.dumps(told))


def test_tokens_a_second_are_compared_without_the_luck_of_a_few_answers(
  tmp_path,
):
  """Timed, the traversal's answers happen to be shorter: it is no slower."""
  test_report.unit(tmp_path, [*test_report.items()])
  methods = [
    timed("none", "plain", [10, 10, 10], [0.1, 0.2, 0.3], [10, 10, 10]),
    timed("eagle", "token_level", [20, 20, 20], [0.1, 0.2, 0.3], [5, 5, 5]),
    timed("eagle", "traversal", [10, 10, 10], [0.1, 0.2, 0.3], [5, 5, 5]),
  ]
  keep_times(tmp_path, methods)
  found = made("main_table", tmp_path)
  rows = {row[0]: row for row in found.tables[-1].rows}
  gain = rows["Avg. accept."][4]
  assert re.fullmatch(r"[+-]\d+\.\d ± \d+\.\d %", gain)
  own = rows["Avg. token/s"]
  assert own[1].startswith("100.0 ± ")
  assert own[2].startswith("50.0 ± ")
  assert own[3:5] == ["-50.0%", gain]  # no cycle took longer
  assert rows["Speed-up"][1:3] == ["2.00 ± 0.00x", "1.00 ± 0.00x"]
  assert found.tables[0].rows[-1][1:3] == [NOTHING] * 2
  report.write(tmp_path)
  by = {
    (row["tree"], row["verifier"]): row
    for row in test_report.rows_of(tmp_path / "timing.csv")
  }
  net = by["eagle", "traversal"]
  assert f"{float(net['net_gain']):+.1f}" == gain.split()[0]
  assert float(net["milliseconds_per_cycle"]) == pytest.approx(40)
  assert by["none", "plain"]["net_gain"] == ""
  assert by["eagle", "token_level"]["net_gain"] == ""
  # A method of other questions is none to compare with.
  methods[1]["questions"] = [1, 2, 4]
  keep_times(tmp_path, methods)
  with pytest.raises(ValueError, match="timed on other questions"):
    report.write(tmp_path)


@pytest.mark.parametrize(
  ("target", "draft", "wanted"),
  [
    ("meta-llama/Llama-2-7b-hf", "JackFram/llama-68m", paper.LLAMA2),
    ("bundled/target", "bundled/draft", paper.LLAMA3),
    ("bundled/target", "bundled/draft_weak", paper.LLAMA2),
  ],
)
def test_which_of_the_papers_tables_is_closest(target, draft, wanted, tmp_path):
  unit(tmp_path, [*planted(["eagle"], lambda *_: 0.0, questions=1)])
  one = command.group(tmp_path)
  one.config["models"] |= {"target": target, "draft": draft}
  assert main_table.closest(one) is wanted


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
  found = made("temperature", tmp_path)
  (line,) = found.reading
  for end, part in zip(ends, line.split(" to "), strict=True):
    assert end in part
  assert ("0 within its error" not in line) == sure
  (table,) = found.tables
  assert [row[0] for row in table.rows] == ["0.2", "0.4", "0.6", "0.8", "1"]
  assert all(row[-1].endswith("%") for row in table.rows)  # the paper's
  (svg,) = found.figures.values()
  assert svg.count("the paper") >= 1


def test_depths_are_in_order_and_what_is_missing_is_a_dash(tmp_path):
  from tv_jax import tree

  trees = ["chain:2", "chain:4", "chain:8", "kary:2x5"]
  unit(tmp_path, [*planted(trees, lambda tree, t: len(tree) / 400)])
  found = made("depth", tmp_path)
  chains, binary = found.tables
  wanted = [f"chain:{d}" for d in (2, 4, 6, 8)]
  assert [row[0] for row in chains.rows] == wanted
  for row in (*chains.rows, *binary.rows):
    assert row[1] == str(len(tree.parse(row[0])) - 1)
  assert chains.rows[2][2:7] == [NOTHING] * 5
  assert all(cell != NOTHING for cell in binary.rows[3])
  assert "4.73" in binary.rows[3][-2]
  assert len(found.figures) == 2


def test_both_ways_to_average_are_those_of_the_metrics(tmp_path):
  answers = [*planted(["eagle"], lambda tree, t: 0.03, questions=5)]
  for one in answers[:2]:  # a long answer counts more by token
    one["accepted"] += [6] * 200
    one["expected"] = {k: v + [6.0] * 200 for k, v in one["expected"].items()}
  unit(tmp_path, answers)
  (table,) = made("statistics", tmp_path).tables
  row = next(r for r in table.rows if r[:2] == ["eagle", "Tra.V"])
  own = [a["accepted"] for a in answers if a["verifier"] == "traversal"]
  assert row[2].startswith(f"{np.mean(np.concatenate(own)):.2f}")
  assert row[3].startswith(f"{np.mean([np.mean(a) for a in own]):.2f}")
  assert row[5:] == ["3.26", "3.16", "2.04x"]


def test_seeds_are_pooled_by_question(tmp_path):
  """More seeds of the same questions are no more questions."""
  answers = [*planted(["eagle"], lambda tree, t: 0.03, questions=4)]
  again = [one | {"seed": 1} for one in answers]
  unit(tmp_path / "one", answers)
  unit(tmp_path / "two", again, seeds=(1,))
  method = dataclasses.replace(main_table.AT_ONE, tree="eagle")
  both, alone = (
    comparing.compare(command.group(folder).answers, method)
    for folder in (tmp_path, tmp_path / "one")
  )
  assert both.traversal.by_item.n == both.gain.n == 4
  assert both.traversal.cycles == 2 * alone.traversal.cycles
  for pooled, own in (*zip(both, alone, strict=True), (both, alone)):
    one, other = (getattr(x, "by_item", None) or x.gain for x in (pooled, own))
    assert one.mean == pytest.approx(other.mean)
    assert one.error == pytest.approx(other.error)


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
  assert "an error that is not known" in found.reading[0]
  asked = experiment.read(tmp_path, "a", ["seed-0", "seed-1"])
  assert asked.missing == ("seed-0", "seed-1")
  again = [one | {"seed": 1} for one in answers]
  unit(tmp_path / "seed-1", again, seeds=(1,), max_new_tokens=7)
  with pytest.raises(ValueError, match=r"max_new_tokens: \d+ there, 7 now"):
    command.group(tmp_path)
  own = experiment.read(tmp_path, "a", ["seed-0"])  # the other is of no matter
  assert [one.folder.name for one in own.units] == ["seed-0"]


@pytest.mark.parametrize("name", names.NAMES)
def test_shards_are_runs_of_the_config(name):
  """Every one is valid, none twice, and a smoke run is small."""
  one = names.find(name)
  for module in (quickstart, eagle_bundled, llama3_1b_8b):
    config = module.get_config()
    config.batch_size = 16
    if module is llama3_1b_8b:
      config.questions = "minibench"
    for smoke in (False, True):
      shards = experiment.shards(one, config, smoke)
      assert len({shard.name for shard in shards}) == len(shards)
      grids = [runs.from_config(shard.of(config)) for shard in shards]
      assert len(set(map(str, grids))) == len(shards)
      # What is only timed asks some of what others ask.
      whole = [grid for grid in grids if grid.per_task == grids[0].per_task]
      cells = [m for grid in whole for m in runs.grid(grid)]
      assert len(set(cells)) == len(cells)
      if smoke:
        assert {(g.per_task, g.batch_size) for g in grids} <= {(1, 8)}


def test_what_some_shards_leave_to_the_user_may_be_set():
  told = ["timing.per_task", "plain"]  # of its first seed
  given = main_table.EXPERIMENT, [quickstart.get_config()]
  experiment.refuse_what_is_swept(*given, told, False)
  for field in ("temperatures", "explorer.per_task"):
    with pytest.raises(ValueError, match=f"config.{field} is set by"):
      experiment.refuse_what_is_swept(*given, [field], False)


def test_the_sweeps_are_the_papers():
  config = llama3_1b_8b.get_config()
  assert config.seeds == (0, 1, 2)
  found = {
    one.name: [s.overrides for s in one.sweep(config, False)]
    for one in names.all_of_them()
  }
  assert [x["temperatures"] for x in found["temperature"]] == [
    (t,) for t in HOT
  ]
  assert [own["trees"] for own in found["depth"]] == [
    *(f"chain:{d}" for d in (2, 4, 6, 8)),
    *(f"kary:2x{d}" for d in (2, 3, 4, 5)),
  ]
  assert [own["seeds"] for own in found["main_table"]] == [(0,), (1,), (2,)]
  config.seeds = (5, 6)
  own = [shard.name for shard in main_table.sweep(config, False)]
  assert own == ["seed-5", "seed-6"]


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


def test_the_rule_as_published_is_caught(x64):
  own = certify.Settings(cases=9)
  bad, sound = (
    certify.check(rule, comparing.PROPOSAL, as_published.SMALL, own)
    for rule in (published.AT_0_6, published.AT_1)
  )
  assert "NOT LOSSLESS" in bad.verdict
  assert bad.distance > 1e-2
  assert sound.lossless


def samples(rng, law, questions, each):
  return {
    question: [rng.choice(len(law), 12, p=law).tolist() for _ in range(each)]
    for question in range(questions)
  }


def test_chances_are_uniform_where_the_laws_are_one():
  rng = np.random.default_rng(0)
  law = [0.5, 0.3, 0.2]
  chances = [
    outputs.compare(samples(rng, law, 3, 3), samples(rng, law, 3, 3)).chance
    for _ in range(60)
  ]
  # Kolmogorov's distance of 60 uniforms is above 0.25 once in a thousand.
  chances = np.sort(chances)
  steps = np.arange(61) / 60
  assert max(steps[1:] - chances) < 0.25
  assert max(chances - steps[:-1]) < 0.25 + 1 / 20  # 20 splits of 3 and 3


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


def test_a_test_takes_other_seeds_of_plain_decoding(monkeypatch):
  method = Method(tree="a", proposal="b", verifier="c", temperature=1.0, seed=0)
  answers = [
    Answer(
      task="qa",
      question=1,
      turn=0,
      method=dataclasses.replace(kind, seed=seed),
      tokens=[seed, 10 + plain],
    )
    for seed in range(4)
    for plain, kind in enumerate((method, method.undrafted))
  ]
  monkeypatch.setattr(outputs, "compare", lambda *given: given)
  ours, theirs = outputs.test(answers, method.pooled("seed"))
  assert (ours[1], theirs[1]) == ([[0, 10], [2, 10]], [[1, 11], [3, 11]])


def test_chains_that_agree_are_counted(tmp_path):
  answers = [*planted(["chain:5"], lambda tree, t: 0.03, questions=6)]
  blocks = [
    one
    | {"verifier": "block", "expected": one["expected"] | {"block": [0.0] * 30}}
    for one in answers
    if one["verifier"] == "traversal"
  ]
  blocks[0] = blocks[0] | {"accepted": [6] * 30}
  unit(tmp_path, answers + blocks, verifiers="token_level traversal block")
  told = made("losslessness", tmp_path).reading
  assert any("same lengths in 5 of 6 answers" in line for line in told)


def test_the_page_has_every_experiment_and_says_what_was_not_run(
  tmp_path, capsys
):
  work = tmp_path / "work"
  answers = [*planted(["chain:5"], lambda tree, t: 0.05 * t, HOT)]
  config = unit(tmp_path / "made", answers, temperatures=HOT, experiment="mine")
  place = work / "temperature" / "mine"
  place.mkdir(parents=True)
  config.rename(place / "all")
  (place / "all" / "env.json").write_text(
    '[{"date": "2026-01-02", "devices": 1, "device": "cpu", "cores": 2,'
    ' "cpu": "a CPU", "jax": "9"}]'
  )
  out = tmp_path / "page" / "results.md"
  assert results.main([f"--workdir={work}", f"--out={out}"]) == 0
  text = out.read_text()
  for one in names.all_of_them():
    assert f"## {one.title}" in text
  assert text.count("Not run.") == len(names.NAMES) - 2
  assert "mine: 2026-01-02, 2 cores of a CPU, jax 9." in text
  (figure,) = re.findall(r"!\[.*\]\((.*)\)", text)
  assert (out.parent / figure).is_file()
  assert results.main([f"--workdir={work}", f"--out={out}"]) == 0
  assert out.read_text() == text


def test_a_slope_is_the_weighted_lines():
  points = {
    0.0: Estimate(mean=1.0, error=0.1, n=9),
    1.0: Estimate(mean=3.0, error=0.2, n=9),
    3.0: Estimate(mean=7.0, error=0.1, n=9),
  }
  found = comparing.slope(points)
  assert found.mean == pytest.approx(2.0)
  weight = np.diag([100, 25, 100])
  design = np.array([[1, 0], [1, 1], [1, 3]])
  wanted = np.linalg.inv(design.T @ weight @ design)[1, 1] ** 0.5
  assert found.error == pytest.approx(wanted)
  assert comparing.slope({0.0: points[0.0], 1.0: points[1.0]}) is None


def test_every_experiment_is_in_the_list():
  there = {
    path.stem
    for path in (ROOT / "experiments").glob("*.py")
    if re.search("^EXPERIMENT = ", path.read_text(), re.M)
  }
  assert there == {*names.NAMES}
  assert [one.name for one in names.all_of_them()] == [*names.NAMES]


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


def test_names_in_what_is_said_are_no_markdown():
  name = "<b>*a* [b](//c) `d`"
  made = experiment.Artefact(reading=[name], notes=[name])
  shown = r"&lt;b&gt;\*a\* \[b\](//c) \`d\`"
  assert command.markdown(made) == f"{shown}\n\n*{shown}*\n"
