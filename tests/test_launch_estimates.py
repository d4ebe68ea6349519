"""What a unit will take: what a run itself reckons, and the paper's speeds."""

import json

import pytest

from configs import common, llama2_68m_7b, llama3_1b_8b, qwen3_8b
from experiments import paper
from launch import estimates
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


@pytest.mark.parametrize("family", families.FAMILIES)
def test_models_in_folders(family, tmp_path):
  """Weights of eight bits are not widened on a GPU, whatever is here."""
  own = checkpoints.tiny(model_type=family, dtype="float16", quantised=True)
  path = tmp_path / "config.json"
  path.write_text(json.dumps(families.to_dict(own)))
  told = FIELDS | {"models.dtype": "int8"}
  found = estimates.of(made(tmp_path, tmp_path, **told))
  weights = layout.size(families.leaves(own), own)
  assert found.memory["weights"] == 2 * weights


@pytest.mark.parametrize(
  ("fields", "words"),
  [
    ({"models.target": "nobody/nothing"}, "'nobody/nothing' is not known"),
    ({"models.draft": "{folder}"}, "config.json does not exist"),
    ({"trees": "missing.json"}, "missing.json cannot be read"),
    ({"batch_size": "3"}, "batch_size"),
  ],
)
def test_what_is_not_known_is_said(fields, words, tmp_path):
  raw = made("bundled/target", "bundled/draft").to_dict()
  for name, value in fields.items():
    *above, field = name.split(".")
    place = raw[above[0]] if above else raw
    place[field] = value.format(folder=tmp_path)
  found = estimates.of(common.ml_collections.ConfigDict(raw))
  assert found.memory is None
  assert words in found.memory_rests_on
  assert found.line.startswith("memory unknown (")


E, F, V, KEYS = 4096, 12288, 151936, 1024  # of Qwen3-8B
LAYER = 2 * E * (E + KEYS) + 3 * E * F
FUSED = 5 * E * E


@pytest.mark.parametrize(
  ("draft", "products"),
  [
    ("", 5 * LAYER + FUSED + 2 * V * 256),
    ("dflash", 5 * LAYER + FUSED),
    # Its attention takes two vectors; both embeddings are its own.
    ("eagle3", LAYER + E * (E + 2 * KEYS) + FUSED + 2 * V * E),
  ],
)
def test_published_drafts_are_known(draft, products):
  found = estimates.of(qwen3_8b.get_config(draft))
  target = 36 * LAYER + 2 * V * E
  assert found.memory["weights"] == pytest.approx(2 * (target + products), 1e-4)


def test_no_speed_is_known():
  assert hours(trees="eagle chain:4").line.endswith("prints none for chain:4)")


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
    ({"tasks": "mt_bench rag"}, 240 * 3),
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
  found = hours(seeds=(0,), **ONE)
  assert found.hours == pytest.approx(560 * 1024 / 52.5 / 3600)
