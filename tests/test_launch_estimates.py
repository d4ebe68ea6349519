"""What a unit will take: what a run itself reckons, and the paper's speeds."""

import dataclasses
import importlib
import json

import pytest

from configs import common, llama2_68m_7b, llama3_1b_8b
from experiments import paper
from launch import estimates
from launch import models as models_lib
from tests import checkpoints
from tv_jax.models import families, layout

FIELDS = {
  "batch_size": 3,
  "max_new_tokens": 200,
  "padded_to": 300,
  "trees": "chain:2 kary:3x2",
}


def made(target, draft, kind="independent", **fields):
  """A config of a pair; dtypes, or a CPU's would be float32."""
  models = {"target": str(target), "draft": str(draft), "draft_kind": kind}
  config = common.config("test", models={"dtype": "bfloat16"} | models)
  config.update_from_flattened_dict(fields)
  return config


def write(folder, config):
  folder.mkdir()
  (folder / "config.json").write_text(json.dumps(families.to_dict(config)))
  return folder


@pytest.mark.parametrize("family", families.FAMILIES)
@pytest.mark.parametrize("dtype", ["float16", "int8"])
def test_models_in_folders(family, dtype, tmp_path):
  """Weights of eight bits are not widened on a GPU, whatever is here."""
  own = checkpoints.tiny(model_type=family, dtype="float16")
  folder = write(tmp_path / "own", own)
  config = made(folder, folder, **FIELDS, **{"models.dtype": dtype})
  if dtype == "int8":
    own = dataclasses.replace(own, quantised=True)
  weights = layout.size(families.leaves(own), own)
  assert estimates.of(config).memory["weights"] == 2 * weights


@pytest.mark.parametrize(
  ("name", "count"),
  [
    ("meta-llama/Llama-3.1-8B-Instruct", 8_030_261_248),
    ("meta-llama/Llama-3.2-1B-Instruct", 1_235_814_400),
    ("meta-llama/Llama-2-7b-hf", 6_738_415_616),
    ("JackFram/llama-68m", 68_030_208),
    ("lmsys/vicuna-7b-v1.3", 6_738_415_616),
  ],
)
def test_published_sizes(name, count):
  """As the repositories' own pages count them."""
  leaves = families.leaves(models_lib.PUBLISHED[name])
  assert sum(leaf.size for leaf in leaves) == count


@pytest.mark.parametrize(
  "name", ["llama3_1b_8b", "llama2_68m_7b", "vicuna_eagle"]
)
def test_every_pair_of_configs_is_known(name):
  config = importlib.import_module(f"configs.{name}").get_config()
  assert sum(estimates.of(config).memory.values()) > 1e10


@pytest.mark.parametrize(
  ("fields", "words"),
  [
    ({"models.target": "nobody/nothing"}, "'nobody/nothing' is not known"),
    ({"models.target": "a" * 9999}, "is not known"),
    ({"models.draft": "{folder}"}, "config.json does not exist"),
    ({"models.draft_kind": "other"}, "models.draft_kind='other': give one of"),
    ({"trees": "kary:9x99"}, "4096 are the most that a tree may have"),
    ({"trees": "missing.json"}, "missing.json cannot be read"),
    ({"batch_size": "3"}, "batch_size"),
    ({"batch_size": "none"}, "batch_size"),
  ],
)
def test_what_is_not_known_is_said(fields, words, tmp_path):
  raw = made("bundled/target", "bundled/draft").to_dict()
  for name, value in fields.items():
    *above, field = name.split(".")
    place = raw[above[0]] if above else raw
    place[field] = value.format(folder=tmp_path)
    if value == "none":
      del place[field]
  found = estimates.of(common.ml_collections.ConfigDict(raw))
  assert found.memory is None
  assert words in found.memory_rests_on
  assert found.line.startswith("memory unknown (")
  assert "\n" not in found.line


def hours(config=None, **fields):
  config = config or llama3_1b_8b.get_config()
  config.timing.per_task = 0
  config.update_from_flattened_dict(fields)
  return estimates.of(config)


def seconds(table):
  """Of a token in each cell of the paper's."""
  speeds = [table.plain.mean]
  for row in table.tokens_per_second.values():
    speeds += [row.token_level.mean, row.traversal.mean]
  assert len(speeds) == 7
  return sum(1 / speed for speed in speeds)


ONE = {"trees": "chain:5", "verifiers": "traversal", "plain": False}


@pytest.mark.parametrize(
  ("fields", "answers"),
  [
    ({}, 560 * 3),
    ({"tasks": "qa"}, 80 * 3),
    ({"tasks": "mt_bench rag"}, 240 * 3),
    ({"per_task": 2}, 14 * 3),
    ({"temperatures": (0.5, 1.0)}, 560 * 3 * 2),
    # Five first turns of six tasks, and one for compiling; of one seed.
    ({"timing.per_task": 5}, 560 * 3 + 31),
  ],
)
def test_hours_are_tokens_by_the_papers_speeds(fields, answers):
  for config, table in (
    (llama3_1b_8b.get_config(), paper.LLAMA3),
    (llama2_68m_7b.get_config(), paper.LLAMA2),
  ):
    wanted = answers * 1024 * seconds(table) / 3600
    assert hours(config, **fields).hours == pytest.approx(wanted)
  assert "37.3 to 71.2 tokens/s" in hours(config, **fields).line
  found = hours(seeds=(0,), **ONE)
  assert found.hours == pytest.approx(560 * 1024 / 52.5 / 3600)
  assert found.line.endswith(
    "at most 3.0 h of decoding (at the paper's 52.5 tokens/s, batch 1, one RTX"
    " A6000; batches are faster; of 480 questions, as published)"
  )


def test_the_questions_that_are_there_are_counted(tmp_path):
  path = tmp_path / "own.jsonl"
  rows = [{"question_id": i, "category": "qa", "turns": ["a"]} for i in (1, 2)]
  path.write_text("".join(json.dumps(row) + "\n" for row in rows))
  found = hours(questions=str(path))
  assert found.hours == pytest.approx(hours().hours * 2 / 560)
  assert "published" not in found.line
  found = hours(questions=f"spec_bench:{path}")
  assert "is not Spec-Bench's question.jsonl" in found.hours_rest_on


def test_a_rule_that_the_paper_does_not_time():
  """It runs on chains alone."""
  found = hours(
    trees="chain:5 eagle",
    verifiers="block traversal",
    plain=False,
    seeds=(0,),
  )
  table = paper.LLAMA3.tokens_per_second
  speeds = [table["chain:5"].traversal, table["eagle"].traversal]
  slower = min(speeds[0].mean, table["chain:5"].token_level.mean)
  whole = sum(1 / speed for speed in (slower, *(one.mean for one in speeds)))
  assert found.hours == pytest.approx(560 * 1024 * whole / 3600)
  assert "block as its slower rule" in found.line


def test_a_copy_in_a_folder_is_timed(tmp_path):
  config = llama3_1b_8b.get_config()
  for kind in ("target", "draft"):
    model = models_lib.PUBLISHED[config.models[kind]]
    config.models[kind] = str(write(tmp_path / kind, model))
  found, theirs = hours(config), hours()
  assert (found.memory, found.hours) == (theirs.memory, theirs.hours)
  assert "shapes of Llama-3.1-8B-Instruct and Llama-3.2-1B" in found.line


@pytest.mark.parametrize(
  ("fields", "what"),
  [
    ({"trees": "eagle chain:4"}, "chain:4"),
    ({"proposals": "top_k"}, "top_k"),
    ({"temperatures": (1.0, 1.5)}, "temperatures above 1"),
    ({"models.draft": "JackFram/llama-68m"}, "this pair"),
  ],
)
def test_no_speed_is_known(fields, what):
  found = hours(**fields)
  assert found.hours is None
  assert found.line.endswith(
    f"hours unknown (no speed is known: the paper prints none for {what})"
  )


def test_a_line():
  taken = {"weights": 18_400_000_000, "caches": 440_000_000, "records": 9}
  assert estimates.Estimate(taken, "", 3.1, "so").line == (
    "at least 18.8 GB (weights 18.4, caches 0.4), at most 3.1 h of decoding"
    " (so)"
  )
  config = made("bundled/target", "bundled/draft", **{"models.devices": 2})
  line = hours(config, tasks="poetry").line
  assert " MB (weights " in line
  assert "where prompts are short, on each of 2 devices)" in line
  assert "hours unknown (no speed is known" in line
