"""The tables of experiments, made from answers written by hand."""

import itertools
import json

import numpy as np
import pytest

from configs import llama3_1b_8b
from experiments import experiment, paper, running, sweeps
from tests.lib import documents, grids
from tests.lib.commands import run
from tests.lib.grids import render, unit
from tv_jax.runs.records import TASKS
from tv_jax.runs.tables import NOTHING

# Of ml_collections, which loads the configs.
pytestmark = pytest.mark.filterwarnings("ignore:the load_module")
HOT = (0.2, 0.4, 0.6, 0.8, 1.0)


def planted(trees, gains, temperatures=(1.0,), questions=20, rules=grids.RULES):
  """Yields answers with a given gain on the same drafts."""
  rng = np.random.default_rng(1)
  for tree, hot, question, rule in itertools.product(
    trees, temperatures, range(1, questions + 1), rules
  ):
    base = rng.uniform(2, 4, 30)
    gain = gains(tree, hot) * base * rng.uniform(0.5, 1.5, 30)
    expected = {rules[0]: base, **dict.fromkeys(rules[1:], base + gain)}
    whole = expected[rule].astype(int)
    yield grids.line(
      tree,
      rule,
      "qa",
      question,
      (whole + (rng.random(30) < expected[rule] - whole)).tolist(),
      {name: values.tolist() for name, values in expected.items()},
      temperature=hot,
    )


def rows_of(table):
  """Returns the rows by their first cell, each as a dict by column."""
  cells = table.joined
  names = [name.removeprefix("this run ") for name in cells.columns]
  rows = cells.set_axis(names, axis=1).to_dict("records")
  return {row[names[0]]: row for row in rows}


def test_the_papers_numbers_stand_beside_ones_own(tmp_path):
  unit(tmp_path, [*grids.items()])
  table = experiment.find("main_table")
  running.write(table, [experiment.read(tmp_path)], tmp_path)
  rows = grids.rows_of(tmp_path / "main_table.csv")
  by = {(row["table"].split(", ")[1], row["task"]): row for row in rows}
  for tree, task in itertools.product(("chain:5", "eagle"), ("mt_bench", "qa")):
    printed = paper.TABLES.loc[paper.LLAMA3.table, task, tree]
    row = by[tree, TASKS[task]]
    traversal = row["the paper traversal"].split()[0]
    assert traversal == f"{printed['traversal']:.2f}"
    assert row["the paper Delta"] == f"{printed['delta']:+.1f}%"
  assert (tmp_path / "main_table.md").read_text().count("### ") == 2
  assert "toprule" in (tmp_path / "main_table.tex").read_text()


def test_paired_gains_come_first_and_are_those_that_were_planted(tmp_path):
  answers = planted(["eagle"], lambda tree, t: 0.05)
  unit(tmp_path, [*answers])
  (table,) = render("main_table", tmp_path).tables
  assert table.cells.columns[0] == ("this run", "same drafts")
  gain, error = map(
    float, rows_of(table)["Average"]["same drafts"][:-2].split(" ± ")
  )
  assert gain == pytest.approx(5, abs=0.3)
  assert 0 < error < 0.2


def test_speeds_are_compared_without_the_answers_lengths(tmp_path):
  unit(tmp_path, [*planted(["eagle"], lambda tree, t: 0.05)])
  grids.keep_times(
    tmp_path,
    [
      grids.timed("none", "plain", [10] * 3, [1.0] * 3, [10] * 3),
      grids.timed("eagle", "token_level", [10] * 3, [0.5] * 3, [4] * 3),
      # Fewer cycles, by luck; each takes 2 % longer.
      grids.timed("eagle", "traversal", [10] * 3, [0.255] * 3, [2] * 3),
    ],
  )
  (table,) = render("main_table", tmp_path).tables
  rows = rows_of(table)
  net = float(rows["Token/s"]["same drafts"].split()[0])
  assert net == pytest.approx(100 * (1.05 / 1.02 - 1), abs=0.4)
  assert rows["Token/s"]["token_level"].startswith("20.0")
  assert rows["Speed-up"]["traversal"].startswith("3.92")


def test_a_gain_that_grows_with_temperature_is_seen(tmp_path):
  answers = planted(["chain:5"], lambda tree, t: 0.05 * t, HOT)
  unit(tmp_path, [*answers], temperatures=HOT)
  report = render("temperature", tmp_path)
  mains = [table.title for table in render("main_table", tmp_path).tables]
  name = tmp_path.name
  assert mains[0] == f"{name}, chain:5, without_replacement, T = 0.2"
  assert mains[-1] == f"{name}, chain:5"  # as the paper's
  (table,) = report.tables
  rows = rows_of(table)
  gains = [row["same drafts"].split()[0] for row in rows.values()]
  assert [*map(float, gains)] == pytest.approx([1, 2, 3, 4, 5], abs=0.3)
  assert rows["1.0"]["the paper traversal"] == "3.99 ± 0.01"
  assert NOTHING not in rows["1.0"].values()
  assert {*report.figures} == {
    f"temperature-{end}{tmp_path.name}" for end in ("", "gain-")
  }
  assert "the paper" in report.figures[f"temperature-gain-{tmp_path.name}"]


def test_right_answers_are_paired_with_plain_decoding_s(tmp_path):
  answers = [*planted(["eagle"], lambda tree, t: 0.0)]
  plain = [
    answer | {"tree": "none", "proposal": "none", "verifier": "plain"}
    for answer in answers
    if answer["verifier"] == "traversal"
  ]
  for answer in (*answers, *plain):  # one of two; the traversal one more
    first = answer["question"] == 1 and answer["verifier"] == "traversal"
    answer["right"] = answer["question"] % 2 == 0 or first
  unit(tmp_path, [*answers, *plain])
  report = render("quality", tmp_path)
  rows = rows_of(report.tables[0])
  assert rows["plain"]["exact match"].startswith("50.0 ± ")
  assert rows["token_level"]["minus plain"] == "+0.0 ± 0.0"
  assert rows["traversal"]["minus plain"] == "+5.0 ± 5.0"
  assert "no judge has rated" in " ".join(report.findings)


def test_what_is_missing_is_said_and_what_differs_is_refused(tmp_path):
  with pytest.raises(ValueError, match="there is no run in it"):
    experiment.read(tmp_path)
  answers = [*planted(["eagle"], lambda tree, t: 0.0)]
  answers[0] = grids.failed(answers[0], "too long")
  unit(tmp_path / "seed-0", answers, finish=False)
  said = " ".join(render("main_table", tmp_path).notes)
  assert "NOT FINISHED: seed-0" in said
  assert "1 ANSWERS FAILED" in said
  again = [answer | {"seed": 1} for answer in answers]
  unit(tmp_path / "seed-1", again, seeds=(1,), max_new_tokens=7)
  with pytest.raises(ValueError, match=r"max_new_tokens: \d+ there, 7 now"):
    experiment.read(tmp_path)


@pytest.mark.parametrize(
  ("name", "refused"),
  [
    ("questions", True),
    ("draft/model.safetensors", True),
    ("trees/chain:5", True),
    ("TV_JAX_NATIVE", False),  # of the machine
    ("weights", False),
  ],
)
def test_runs_with_different_inputs_are_refused(tmp_path, name, refused):
  made = [*planted(["chain:5"], lambda tree, t: 0.0)]
  for seed, value in enumerate("xxy"):
    folder = unit(tmp_path / f"seed-{seed}", made, seeds=(seed,))
    kept = {"questions": "q", "trees/chain:5": "t", name: value}
    # A shard may have a tree of its own.
    kept[f"trees/{seed}"] = value
    (folder / "sources.json").write_text(json.dumps(kept))
  if refused:
    message = f"seed-2 were made with different {name}: give one of the two"
    with pytest.raises(ValueError, match=message):
      experiment.read(tmp_path)
  else:
    experiment.read(tmp_path)


def test_other_tasks_have_other_questions(tmp_path):
  made = [*planted(["chain:5"], lambda tree, t: 0.0)]
  for task in ("qa", "mt_bench"):
    folder = unit(tmp_path / task, made, tasks=task)
    (folder / "sources.json").write_text(json.dumps({"questions": task}))
  experiment.read(tmp_path)


def test_a_configs_temperatures_are_kept(tmp_path):
  argv = ["", "--config=quickstart", "--config.temperatures=0.6,1.0"]
  for name in set(experiment.NAMES) - {"temperature"}:
    for run_ in experiment.planned(experiment.find(name), argv):
      assert run_.settings.temperatures == (0.6, 1.0)
  # As ml_collections joins them.
  argv[2:] = ["--config.temperatures=0.6", "--config.temperatures=1.0"]
  (run_, *_) = experiment.planned(experiment.find("depth"), argv)
  assert run_.settings.temperatures == (0.6, 1.0)
  # A sweep over two axes is a call.
  trees = ["chain:2", "chain:4"]
  both = sweeps.sweep("both", "Both", "trees", trees, temperatures=(0.6, 1.0))
  for run_ in experiment.planned(both, argv[:2]):
    assert run_.settings.temperatures == (0.6, 1.0)
  answers = planted(trees, lambda tree, t: 0.05 * t, (0.6, 1.0))
  unit(tmp_path, [*answers], temperatures=(0.6, 1.0))
  tables = both.render([experiment.read(tmp_path)]).tables
  assert [table.title.split(", ", 1)[1] for table in tables] == [
    f"chain, without_replacement, T = {t:g}" for t in (0.6, 1.0)
  ]


@pytest.mark.parametrize(
  ("draft", "pair"),
  [
    ("AngelSlim/Qwen3-8B_eagle3", None),
    ("bundled/dspark", None),
    ("bundled/eagle", paper.VICUNA),
    ("bundled/draft_weak", paper.LLAMA2),
    ("bundled/draft", paper.LLAMA3),
  ],
)
def test_the_paper_stands_beside_drafts_of_its_kinds(tmp_path, draft, pair):
  assert paper.closest({"target": "a", "draft": draft}) == pair
  unit(
    tmp_path, [*planted(["chain:5"], lambda tree, t: 0.0)], models__draft=draft
  )
  report = render("main_table", tmp_path)
  groups = {group for group, _ in report.tables[0].cells.columns}
  assert groups == ({"this run", "the paper"} if pair else {"this run"})
  notes = " ".join(report.notes)
  assert ("the closest of its three" in notes) == bool(pair)


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
    shards = experiment.find(name).sweep(config, False)
    assert [fields[field] for fields in shards.values()] == wanted


def test_the_documents_experiment_is_one(tmp_path, monkeypatch):
  text = (documents.DOCS / "reproduce.md").read_text()
  program = documents.files_of(text)["widths"]
  (tmp_path / "widths_of_the_document.py").write_text(program)
  monkeypatch.syspath_prepend(tmp_path)
  width = experiment.find("widths_of_the_document:WIDTH")
  planned = experiment.planned(width, ["", "--config=quickstart"])
  trees = [tree for run in planned for tree in run.settings.trees]
  assert trees == ["branching:2,1", "branching:4,1", "branching:8,1"]
  unit(tmp_path / "run", [*planted(trees, lambda tree, t: 0.03)])
  (table,) = width.render([experiment.read(tmp_path / "run")]).tables
  assert [*table.cells.index] == trees
  assert (table.cells != NOTHING).all(axis=None)


@pytest.mark.parametrize("name", experiment.NAMES)
def test_a_run_without_a_drafted_answer_is_told(tmp_path, name):
  """Tables may be made while runs go on, and one has just begun."""
  unit(tmp_path, [])
  assert "0 questions" in " ".join(render(name, tmp_path).notes)


def test_a_field_that_the_experiment_sets_is_refused():
  done = run("depth", "--config.trees=eagle", program="experiments")
  assert done.returncode
  assert "is set by the experiment itself" in done.stderr


@pytest.mark.parametrize("switch", ["--noconfig.plain", "--config.plain=0"])
def test_a_switch_takes_no_argument(switch):
  argv = ["", "--config=quickstart", switch, "main_table"]
  (run_, *_) = experiment.planned(experiment.find("main_table"), argv)
  assert not run_.settings.plain


def test_a_configs_trees_that_are_not_run_are_named(capsys):
  argv = ["", "--config=configs/smollm2.py"]
  (run_,) = experiment.planned(experiment.find("drafts"), argv)
  assert run_.settings.trees == ("chain:7", "eagle", "kary:2x5")
  said = "configs/smollm2.py: trees=chain:5 eagle is not run: drafts sets it\n"
  assert capsys.readouterr().err == said
  experiment.planned(experiment.find("drafts"), ["", "--config=quickstart"])
  assert not capsys.readouterr().err


@pytest.mark.long
def test_a_page_says_what_was_not_run(tmp_path):
  """SMOKE=1 make experiments, in .ci/run, makes one of all."""
  page = tmp_path / "results.md"
  flags = f"--workdir={tmp_path / 'nothing'}", f"--out={page}"
  done = run(*flags, program="experiments.results")
  assert done.returncode == 0, done.stderr
  assert page.read_text().count("Not run.") == len(experiment.NAMES)
