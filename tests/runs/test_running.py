"""Runs with the bundled models: answers, stored records, and speed."""

import dataclasses
import json
import shutil

import numpy as np
import pytest

import tv_jax
from tests.lib.grids import config, expected_length
from tv_jax import runs
from tv_jax.models import templates
from tv_jax.runs import questions as questions_lib
from tv_jax.runs import report, store
from tv_jax.runs import timing as timing_lib


@pytest.fixture(autouse=True, scope="module")
def _kept_programs(tmp_path_factory):
  """Keeps compiled programs on disk: each run would compile them again."""
  runs.keep_programs(str(tmp_path_factory.mktemp("programs")))
  yield
  runs.keep_programs("")


@pytest.fixture(scope="module")
def finished(tmp_path_factory):
  folder = tmp_path_factory.mktemp("run")
  runs.run(config(), folder)
  return folder


def answer_of(unit, **names):
  (found,) = [item for item in unit.items if names.items() <= item.items()]
  return found


def test_every_turn_of_every_cell_is_answered(finished):
  unit = store.read(finished)
  asked = runs.read_questions(runs.from_config(config()))
  assert sum(len(question.turns) for question in asked) == 8
  assert unit.done
  assert len(unit.items) == 3 * 8
  rules = {"plain", "token_level", "traversal"}
  assert {item["verifier"] for item in unit.items} == rules
  for item in unit.items:
    if item["verifier"] == "plain":  # a token a cycle
      assert item["accepted"] == [1] * len(item["tokens"])
      assert item["expected"] == {}


def test_a_torn_run_is_continued_to_the_same_bytes(finished, tmp_path):
  """tests/test_main.py kills processes."""
  folder = tmp_path / "run"
  shutil.copytree(finished, folder)
  whole = (folder / "items.jsonl").read_bytes()
  lines = whole.splitlines(keepends=True)
  # In the second cell, in the middle of its first turns.
  (folder / "items.jsonl").write_bytes(b"".join([*lines[:11], lines[11][:50]]))
  runs.run(config(), folder)
  assert (folder / "items.jsonl").read_bytes() == whole
  assert store.read(folder).done


def test_a_finished_runs_grid_may_grow(finished, bundled, tmp_path):
  """What is there stays, and what is new is what a new run has."""
  folder = tmp_path / "run"
  shutil.copytree(finished, folder)
  before = (folder / "items.jsonl").read_bytes()
  grown = config(
    seeds=(0, 1), trees="chain:2 kary:2x2", tasks="qa mt_bench rag"
  )
  with pytest.raises(ValueError, match="tasks: "):
    runs.run(grown, folder)
  grown = config(seeds=(0, 1), trees="chain:2 kary:2x2")
  for place in (folder, tmp_path / "new"):
    runs.run(grown, place, load=lambda settings: bundled)
  lines = (folder / "items.jsonl").read_bytes()
  assert lines.startswith(before)
  fresh = (tmp_path / "new" / "items.jsonl").read_bytes()
  assert sorted(lines.splitlines()) == sorted(fresh.splitlines())
  assert len(lines.splitlines()) == 2 * 5 * 8
  assert (folder / "DONE").exists()


@pytest.mark.long
def test_an_answer_is_what_generate_says(finished, bundled):
  unit = store.read(finished)
  question = questions_lib.load_questions("minibench")[0]
  first = answer_of(unit, question=1, turn=0, verifier="traversal")
  asked = [
    questions_lib.conversation(question, []),
    questions_lib.conversation(question, [first["text"]]),
  ]
  for turn, turns in enumerate(asked):
    ours = answer_of(unit, question=1, turn=turn, verifier="traversal")
    theirs = tv_jax.generate(
      bundled,
      [templates.encode("chat", bundled.tokenizer, turns)],
      items=[questions_lib.TURNS + turn],
      tree="kary:2x2",
      panel=["token_level"],
      max_new_tokens=12,
    )
    assert ours["tokens"] == theirs.tokens[0]
    assert ours["text"] == theirs.text[0]
    assert ours["accepted"] == theirs.gained[0].tolist()
    assert ours["drafted"] == theirs.drafted[0].tolist()
    assert ours["stops"] == theirs.stops.tolist()
    for name, expected in theirs.expected.items():
      np.testing.assert_allclose(ours["expected"][name], expected[0], rtol=1e-4)


def test_traces_are_of_the_first_question_of_each_task(finished):
  traced = [item for item in store.read(finished).items if "trace" in item]
  assert {(item["task"], item["turn"]) for item in traced} == {
    ("mt_bench", 0),
    ("qa", 0),
    ("rag", 0),
  }
  assert len(traced) == 6  # both rules
  tree = tv_jax.tree.parse("kary:2x2")
  for item in traced:
    assert item["prompt"]
    assert len(item["trace"]) == min(6, len(item["accepted"]))
    text = ""
    for i, cycle in enumerate(item["trace"]):
      assert tree.depth[cycle["node"]] + 1 == item["accepted"][i]
      for rule, expected in item["expected"].items():
        length = expected_length(cycle, rule)
        assert length == pytest.approx(expected[i], rel=1e-4)
      # The coins decide, by the thresholds that were kept.
      for rule, walk in cycle["walks"].items():
        taken = [v for v, chance in walk["steps"] if cycle["coins"][v] < chance]
        path = tree.paths[walk["node"]][1 : tree.depth[walk["node"]] + 1]
        assert taken == ([*path] if rule == "token_level" else [*path][-1:])
      assert cycle["walks"][item["verifier"]]["node"] == cycle["node"]
      path = tree.paths[cycle["node"]][1 : tree.depth[cycle["node"]] + 1]
      text += "".join(cycle["pieces"][node] for node in path)
      text += cycle["bonus"] or ""
    # The limit may have cut off tokens of the last cycle.
    shown, answer = text.strip().split("<|")[0], item["text"].lstrip()
    assert answer.startswith(shown[: len(answer)])


def test_what_has_changed_since_is_refused(finished, tmp_path):
  folder = tmp_path / "run"
  shutil.copytree(finished, folder)
  kept = json.loads((folder / "sources.json").read_text())
  assert {"questions", "target/model.safetensors"} < {*kept}
  for name in ("questions", "draft/model.safetensors"):
    (folder / "sources.json").write_text(json.dumps(kept | {name: "other"}))
    with pytest.raises(ValueError, match=rf"run began: {name}: put back"):
      runs.run(config(), folder)


def question(number, text="What?", category="qa", turns=1):
  turns = [text] * turns
  return {"question_id": number, "category": category, "turns": turns}


def asked_in(tmp_path, *rows, **fields):
  path = tmp_path / "questions.jsonl"
  path.write_text("".join(json.dumps(row) + "\n" for row in rows))
  settings = config(questions=str(path), tasks="", **fields)
  return runs.read_questions(runs.from_config(settings))


@pytest.mark.parametrize(
  ("row", "message"),
  [
    (question(1, turns=17), "question 1 has more than 16 turns"),
    (question(1, category="all"), "a category is called 'all'"),
  ],
)
def test_a_question_that_no_answer_can_be_kept_of_is_refused(
  tmp_path, row, message
):
  with pytest.raises(ValueError, match=rf"questions.jsonl: {message}"):
    asked_in(tmp_path, row)


def test_every_question_that_is_asked_draws_for_itself(tmp_path):
  names = [2**28, 2**28 + 1, 2**63 - 1, 7]
  asked = asked_in(tmp_path, *map(question, names), per_task=0)
  assert [one.question_id for one in asked] == names
  numbers = {
    questions_lib.number_of(name, turn) for name in names for turn in (0, 15)
  }
  assert len(numbers) == 8
  assert 7 * 16 in numbers  # as ever
  assert max(numbers) < 2**32


@pytest.mark.long
def test_speed_is_measured_apart_and_once(tmp_path):
  timed = config(
    tasks="qa rag",
    per_task=1,
    trees="chain:1",
    timing__per_task=1,
  )
  runs.run(timed, tmp_path)
  timing = store.read(tmp_path).timing
  kept = (tmp_path / "timing.json").read_bytes()
  names = [method["verifier"] for method in timing["methods"]]
  assert names == ["plain", "token_level", "traversal"]
  for method in timing["methods"]:
    assert method["tasks"] == ["qa", "rag"]
    assert len(method["seconds"]) == 2
    assert min(method["seconds"]) > 0
    assert all(1 <= tokens <= 12 for tokens in method["tokens"])
  assert timing["methods"][0]["cycles"] == timing["methods"][0]["tokens"]
  # A tree of a grown grid is timed with all others.
  wanted = runs.grid(runs.from_config(timed))
  assert timing_lib.covers(timing, wanted)
  other = dataclasses.replace(wanted[1], tree="chain:2")
  assert not timing_lib.covers(timing, [*wanted, other])
  (tmp_path / "DONE").unlink()
  runs.run(timed, tmp_path)
  assert (tmp_path / "timing.json").read_bytes() == kept
  report.write(tmp_path)
  table = (tmp_path / "table.md").read_text()
  assert "Speed" not in table  # it is not the same again: on the page alone
  assert "Speed at batch 1" in (tmp_path / "report.html").read_text()


@pytest.mark.parametrize(
  ("fields", "message"),
  [
    ({"verifiers": "block"}, "'block' is defined for chains only"),
    ({"seeds": (1, 1)}, "seeds=1 1: give some, each once"),
    ({"baseline": "block"}, "baseline: .*'block' is defined for chains only"),
  ],
)
def test_what_is_wrong_is_said_before_anything_loads(fields, message):
  with pytest.raises(ValueError, match=message):
    runs.from_config(config(**fields))


def test_fields_are_those_of_a_run():
  raw = runs.to_dict(runs.from_config(config()))
  assert runs.to_dict(runs.from_config(raw)) == raw
  with pytest.raises(ValueError, match=r"config: Run.* argument 'thing'"):
    runs.from_config(raw | {"thing": 1})
  with pytest.raises(ValueError, match="per_task=-1: give an integer"):
    runs.from_config(raw | {"per_task": -1})
  del raw["trees"]
  with pytest.raises(ValueError, match="config: 'trees' is missing"):
    runs.from_config(raw)


@pytest.mark.parametrize(
  ("fields", "message"),
  [
    ({"temperatures": (1.0, -1.0)}, r"^temperature=-1\.0: give 0"),
    ({"seeds": (0, -1)}, "^seed=-1: give an integer from 0 to 4294967295"),
    ({"models__template": "chta"}, "^template 'chta' is not one of"),
  ],
)
def test_a_wrong_number_is_refused_before_the_first_answer(
  tmp_path, bundled, fields, message
):
  with pytest.raises(ValueError, match=message):
    runs.run(config(**fields), tmp_path, load=lambda settings: bundled)
  assert not (tmp_path / "items.jsonl").read_bytes()


def test_tasks_are_those_of_the_questions():
  with pytest.raises(ValueError, match="'maths' is none of the questions'"):
    runs.read_questions(runs.from_config(config(tasks="maths")))


def test_a_rule_for_chains_runs_on_chains_alone():
  mixed = config(trees="chain:2 eagle", verifiers="block traversal")
  grid = runs.grid(runs.from_config(mixed))
  assert [(c.tree, c.verifier) for c in grid[1:]] == [
    ("chain:2", "block"),
    ("chain:2", "traversal"),
    ("eagle", "traversal"),
  ]


def test_too_few_devices_are_said_to_be():
  with pytest.raises(ValueError, match=r"models.devices=64: there are only 2"):
    runs.load(runs.from_config(config(models__devices=64)))


def test_a_run_whose_answers_all_fail_says_so(tmp_path, bundled):
  asked = config(tasks="qa", per_task=1, plain=False, max_tokens=1)
  assert not runs.run(asked, tmp_path, load=lambda settings: bundled)
  assert "ANSWERS FAILED" in report.write(tmp_path).findings[0]


def test_a_run_without_a_draft_decodes_plainly(tmp_path):
  fields = {"tasks": "qa", "per_task": 1, "plain": False, "models__draft": ""}
  assert runs.run(config(**fields), tmp_path)
  unit = store.read(tmp_path)
  assert [item["verifier"] == "plain" for item in unit.items] == [True]
  assert unit.done
  report.write(tmp_path)
