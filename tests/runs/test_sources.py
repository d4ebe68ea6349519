"""Hashes of a run's inputs: every change of content shows, nothing else."""

import json
import os
import pathlib
import shutil

import huggingface_hub
import pytest

from tests.lib import grids
from tests.lib.grids import hashes
from tv_jax import runs
from tv_jax.io import digests, reading
from tv_jax.runs import sources as sources_lib


def different(before, now):
  return sorted(
    name for name in {*before, *now} if before.get(name) != now.get(name)
  )


@pytest.fixture
def pair(tmp_path):
  """A copy of the bundled pair and of the questions."""
  shutil.copytree(reading.BUNDLED, tmp_path / "pair")
  return tmp_path / "pair"


def read(pair):
  models = {
    "models__target": f"{pair}/target",
    "models__draft": f"{pair}/draft",
  }
  return hashes(**models, questions=str(pair / "minibench.jsonl"))


def test_a_place_or_a_date_is_no_difference(pair, tmp_path):
  os.utime(pair / "target" / "model.safetensors", (0, 0))
  bundled = hashes()
  assert read(pair) == bundled
  assert [*bundled] == [
    "questions",
    "trees/kary:2x2",
    "TV_JAX_NATIVE",
    "target/config.json",
    "target/model.safetensors",
    "target/generation_config.json",
    "target/tokenizer.json",
    "target/tokenizer_config.json",
    "target/chat_template.jinja",
    "draft/config.json",
    "draft/model.safetensors",
  ]


@pytest.mark.parametrize("place", ["installed/gone/x.gguf", "/gone/x.gguf"])
def test_a_finished_run_needs_no_models(place):
  config = grids.config()
  config.models.update({"target": place, "draft": "gone"})
  settings = runs.from_config(config)
  questions = runs.read_questions(settings)
  found = sources_lib.hashes(settings, questions, finished=True)
  assert [*found] == ["questions", "trees/kary:2x2"]


def edit_weights(path):
  data = bytearray(path.read_bytes())
  data[-1] ^= 1
  path.write_bytes(data)


def edit_json(path):
  path.write_text(json.dumps(json.loads(path.read_text()) | {"more": 1}))


def edit_question(path):
  lines = path.read_text().splitlines(keepends=True)
  row = json.loads(lines[0])
  row["turns"][0] += "?"
  path.write_text("".join([json.dumps(row) + "\n", *lines[1:]]))


def add_question(path):
  more = {"question_id": 999, "category": "qa", "turns": ["Why?"]}
  path.write_text(path.read_text() + json.dumps(more) + "\n")


def append(path):
  with path.open("a") as file:
    file.write(" ")


@pytest.mark.parametrize(
  ("name", "edit", "changed"),
  [
    ("minibench.jsonl", edit_question, ["questions"]),
    ("target/model.safetensors", edit_weights, ["target/model.safetensors"]),
    ("target/config.json", edit_json, ["target/config.json"]),
    ("target/chat_template.jinja", append, ["target/chat_template.jinja"]),
    ("minibench.jsonl", add_question, []),  # which is not asked
  ],
)
def test_a_change_is_found_by_name(pair, name, edit, changed):
  before = read(pair)
  edit(pair / name)
  assert different(before, read(pair)) == changed


def test_of_large_weights_the_beginning_and_pieces_are_read(pair, monkeypatch):
  monkeypatch.setattr(digests, "WHOLE", 1000)
  monkeypatch.setattr(digests, "_PIECES", 3)
  monkeypatch.setattr(digests, "_PIECE", 10)
  before = read(pair)
  path = pair / "draft" / "model.safetensors"
  whole = path.read_bytes()
  for place in (100, 999, -1):
    content = bytearray(whole)
    content[place] ^= 1
    path.write_bytes(content)
    os.utime(path, ns=(0, path.stat().st_mtime_ns + 10**7))  # clocks are coarse
    assert different(before, read(pair)) == ["draft/model.safetensors"]


def test_a_file_is_read_once_for_many_runs(pair, monkeypatch):
  before, opened, opening = read(pair), [], pathlib.Path.open

  def open_file(path, *arguments, **options):
    opened.append(path.name)
    return opening(path, *arguments, **options)

  monkeypatch.setattr(pathlib.Path, "open", open_file)
  assert read(pair) == before
  assert "minibench.jsonl" in opened
  assert not [name for name in opened if name.startswith("model.")]


def test_a_branch_is_resolved_to_a_commit_once(tmp_path, monkeypatch):
  """It moves each time it is asked for."""
  commits = [tmp_path / "snapshots" / name for name in ("first", "second")]
  for folder in commits:
    shutil.copytree(reading.BUNDLED / "target", folder)
  branch = iter(commits)

  def found(_, revision, **__):
    known = {folder.name: folder for folder in commits}
    return str(known[revision] if revision in known else next(branch))

  monkeypatch.setattr(huggingface_hub, "snapshot_download", found)
  config = grids.config(tasks="qa", per_task=1, plain=True)
  config.models.update({"target": "an/owner", "draft": ""})
  loaded = []

  def load(settings):
    loaded.append(runs.load(settings))
    return loaded[0]

  runs.run(config, tmp_path / "run", load=load)
  kept = json.loads((tmp_path / "run" / "sources.json").read_text())
  assert kept["target"] == "first"
  assert loaded[0].target.source == "an/owner@first"
  assert loaded[0].checkpoint.commit == "first"
  kept = json.loads((tmp_path / "run" / "config.json").read_text())
  assert not kept["models"]["revision"]
  config.seeds = (*config.seeds, 7)  # the run goes on with the same commit
  runs.run(config, tmp_path / "run", load=load)
  assert loaded[1].target.source == "an/owner@first"
