"""Answers that another run has are taken, and are what would be decoded."""

import json
import shutil

import pytest

from configs import smoke
from experiments import command, names
from tests.test_evaluate import config
from tv_jax import engine, runs
from tv_jax.runs import environment, known, store
from tv_jax.runs.records import Method
from tv_jax.runs.store import unit as unit_lib

ENVIRONMENT = {"revision": "0123456789ab", "jax": "0", "date": "2026-01-01"}
SOURCES = {"questions": "a", "target": "b", "draft": "c", "trees/kary:2x2": "d"}


@pytest.fixture(scope="module", autouse=True)
def _kept_programs(tmp_path_factory):
  runs.keep_programs(str(tmp_path_factory.mktemp("programs")))
  yield
  runs.keep_programs("")


@pytest.fixture
def committed(monkeypatch):
  """As in a clean checkout."""
  own = {**environment.describe(), "revision": "0123456789ab"}
  monkeypatch.setattr(environment, "describe", lambda: own)


@pytest.mark.usefixtures("committed")
def test_a_second_run_decodes_what_the_first_has_not(tmp_path, monkeypatch):
  first, alone, second = (tmp_path / name for name in ("a", "b", "c"))
  wider = config(seeds=(1, 0), plain=False)
  runs.run(config(), first)
  runs.run(wider, alone)
  decode, methods = engine.Rows.decode, []

  def watched(self, how, *arguments):
    methods.append((how.name, how.seed))
    return decode(self, how, *arguments)

  monkeypatch.setattr(engine.Rows, "decode", watched)
  told = []
  runs.run(wider, second, told.append, others=[tmp_path / "no", first])
  assert {*methods} == {("token_level", 1), ("traversal", 1)}
  assert any(
    "32 answers in 4 cells, 0 are there, 16 in other" in t for t in told
  )
  for name in ("items.jsonl", "sources.json", "config.json", "COUNT", "DONE"):
    assert (second / name).read_bytes() == (alone / name).read_bytes()


@pytest.mark.usefixtures("committed")
def test_a_run_that_has_all_from_others_decodes_nothing(tmp_path, monkeypatch):
  runs.run(config(), tmp_path / "a")

  def fail(*_, **__):
    raise AssertionError("decoded, or compiled")

  monkeypatch.setattr(engine.Rows, "decode", fail)
  monkeypatch.setattr("tv_jax.engine.decoding.compile", fail)
  one = config(seeds=(0,), plain=False)
  runs.run(one, tmp_path / "b", others=[tmp_path / "a"])
  assert store.read(tmp_path / "b").done


def test_where_it_was_begun_is_looked_at(tmp_path, monkeypatch):
  """A run that goes on elsewhere tells of both places."""
  folder, asked = tmp_path / "run", []
  settings = runs.from_config(config())
  began = {**environment.describe(), "revision": "another"}
  with store.Store(folder, runs.to_dict(settings), began):
    pass

  def look(settings, environments, *_):
    asked.extend(environments)
    raise ValueError("enough")

  monkeypatch.setattr(known, "answers", look)
  with pytest.raises(ValueError, match="enough"):
    runs.run(config(), folder)
  assert [one["revision"] for one in asked] == [
    "another",
    environment.describe()["revision"],
  ]


@pytest.fixture
def run(tmp_path):
  """A finished run of one answer, and how to change it."""
  method = Method(
    tree="kary:2x2",
    proposal="without_replacement",
    verifier="traversal",
    temperature=1.0,
    seed=0,
  )
  asked = runs.to_dict(runs.from_config(config()))

  def made(
    sources=SOURCES, done=True, count=None, place=ENVIRONMENT, **changes
  ):
    folder = tmp_path / "run"
    shutil.rmtree(folder, ignore_errors=True)
    line = {"task": "qa", "question": 1, "turn": 0, **method.fields}
    line |= {"tokens": [1], "text": "a", "accepted": [1], "expected": {}}
    line |= {"stops": [1], "faults": 0, "right": None}
    folder.mkdir()
    for name, value in (
      (unit_lib.CONFIG, {**asked, **changes}),
      (unit_lib.ENVIRONMENTS, [place] if place else []),
      (unit_lib.SOURCES, sources),
    ):
      (folder / name).write_text(json.dumps(value))
    (folder / unit_lib.ITEMS).write_text(json.dumps(line) + "\n")
    if count is not None:
      (folder / unit_lib.COUNT).write_text(f"{count}\n")
    if done:
      (folder / unit_lib.DONE).touch()
    return folder

  return made


def taken(folder, *places):
  settings = runs.from_config(config())
  return len(
    known.answers(settings, places or [ENVIRONMENT], SOURCES, [folder])
  )


@pytest.mark.parametrize(
  ("changes", "count"),
  [
    ({}, 1),
    ({"experiment": "other", "plain": False, "timing": {}}, 1),
    (
      {"trees": ["kary:2x2", "chain:2"], "seeds": [4], "temperatures": [0.5]},
      1,
    ),
    ({"place": {**ENVIRONMENT, "date": "2026-01-02"}}, 1),
    ({"sources": {**SOURCES, "trees/chain:2": "e"}}, 1),
    ({"verifiers": ["traversal"]}, 0),  # another program
    ({"verifiers": ["traversal", "token_level"]}, 0),
    # A rule that is not defined on the tree is in no program of it.
    ({"verifiers": ["token_level", "traversal", "block"]}, 1),
    ({"verifiers": ["token_level", "traversal", "layer_walk"]}, 0),
    ({"verifiers": ["token_level", "traversal", "nowhere:rule"]}, 0),
    ({"baseline": "traversal"}, 0),
    ({"batch_size": 5}, 0),
    ({"padded_to": 65}, 0),
    ({"max_new_tokens": 13}, 0),
    ({"draft_temperature": 0.5}, 0),
    ({"explorer": {"per_task": 1, "cycles": 3}}, 0),
    ({"models": {}}, 0),
    ({"done": False}, 0),
    ({"done": False, "count": 2}, 0),
    ({"done": False, "count": 1}, 1),  # its times are still to be taken
    ({"place": {**ENVIRONMENT, "jax": "1"}}, 0),
    ({"place": {**ENVIRONMENT, "revision": "ab0123456789"}}, 0),
    ({"sources": {**SOURCES, "target": "e"}}, 0),
    ({"sources": {**SOURCES, "trees/kary:2x2": "e"}}, 0),
    ({"sources": {**SOURCES, "verifiers/a:b": "e"}}, 1),  # of no rule here
    ({"sources": {}}, 0),
    ({"place": None}, 0),
  ],
  ids=str,
)
def test_only_what_would_be_the_same_is_taken(run, changes, count):
  assert taken(run(**changes)) == count


@pytest.mark.usefixtures("committed")
def test_of_a_run_of_other_rules_plain_answers_are_taken(tmp_path):
  first = tmp_path / "a"
  runs.run(config(), first)
  other = config(verifiers="layer_walk", plain=True)
  taken = known.answers(
    runs.from_config(other),
    store.read(first).environments,
    json.loads((first / unit_lib.SOURCES).read_text()),
    [first],
  )
  assert taken
  assert all(key.method.plain for key in taken)


@pytest.mark.parametrize("revision", ["", "0123456789ab-dirty"])
def test_code_that_is_no_commit_takes_nothing(run, revision):
  place = {**ENVIRONMENT, "revision": revision}
  assert not taken(run(place=place), place)


def test_a_run_that_was_begun_elsewhere_takes_nothing(run):
  """Its first turns are there; a second one would follow others."""
  other = {**ENVIRONMENT, "jax": "1"}
  assert taken(run(), ENVIRONMENT, {**ENVIRONMENT, "date": "2026-01-02"})
  assert not taken(run(), other, ENVIRONMENT)
  assert not taken(run(), ENVIRONMENT, other)


@pytest.mark.parametrize(
  ("name", "text"),
  [
    (unit_lib.CONFIG, "{"),
    (unit_lib.SOURCES, "{"),
    (unit_lib.ENVIRONMENTS, "[1]"),
    ("items.jsonl", "{\n{}\n"),
  ],
)
def test_a_damaged_run_of_others_is_left_out(run, name, text):
  folder = run()
  (folder / name).write_text(text)
  assert not taken(folder)


def test_an_experiment_looks_at_the_runs_of_all_others(tmp_path, monkeypatch):
  there = tmp_path / "main_table" / "smoke" / "seed-0"
  there.mkdir(parents=True)
  given = []
  monkeypatch.setattr(
    runs, "run", lambda *_, others, times: given.append([*others])
  )
  monkeypatch.setattr("experiments.experiment.read", lambda *_: None)
  tiny = smoke.get_config()
  command.execute(names.find("depth"), [tiny], tmp_path / "depth", smoke=True)
  assert given == [[there]] * 2
