"""What a unit will take: what a run itself reckons, and the paper's speeds."""

import importlib
import json
import pathlib
import subprocess
import sys
import time

import numpy as np
import pytest

from configs import common, llama2_68m_7b, llama3_1b_8b, quickstart
from experiments import experiment, main_table, names, paper
from launch import estimates, shapes, units
from launch import hours as hours_lib
from launch import models as models_lib
from launch.units import Pair
from tests import checkpoints, published
from tv_jax import drafting, runs, tree, verifiers
from tv_jax.edge import reading
from tv_jax.engine import sizes
from tv_jax.models import families, layout, memory
from tv_jax.runs import questions as questions_lib

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


def of_a_run(config, monkeypatch):
  """What the run itself would refuse, or not: its largest batch."""
  seen = []
  settings = runs.from_config(config)
  with monkeypatch.context() as patch:
    patch.setattr(memory, "check", lambda parts, *_: seen.append(parts))
    # A launcher reckons for GPUs.
    patch.setattr(sizes, "block", lambda: sizes.BLOCK)
    places = map(
      reading.place_of, (settings.models.target, settings.models.draft)
    )
    runs.running.check_memory(settings, *places)
  return max(seen, key=lambda parts: sum(parts.values()))


@pytest.mark.parametrize(
  "fields",
  [
    {},
    FIELDS,
    {"models.devices": 2},
    {"models.devices": 2, "models.shard_draft": True},
    {"models.dtype": "float32", "explorer.per_task": 0},
    {"trees": "eagle", "verifiers": "traversal", "max_new_tokens": 3},
    {"trees": "adaptive:4,6,6 branching:3,2", "explorer.cycles": 1000},
  ],
)
@pytest.mark.parametrize("draft", ["draft", "draft_weak", "eagle"])
def test_the_bundled_pairs_take_what_a_run_reckons(draft, fields, monkeypatch):
  kind = "eagle" if draft == "eagle" else "independent"
  config = made("bundled/target", f"bundled/{draft}", kind, **fields)
  assert estimates.of(config).memory == of_a_run(config, monkeypatch)


def random_config(rng, **changes):
  groups, ratio, channels, vocabulary, mlp = rng.integers(1, 9, 5).tolist()
  return checkpoints.tiny(
    vocab_size=30 + vocabulary,
    hidden_size=16 * groups,
    intermediate_size=8 * mlp,
    num_hidden_layers=int(rng.integers(1, 5)),
    num_attention_heads=groups * ratio,
    num_key_value_heads=groups,
    head_dim=2 * channels,
    tie_word_embeddings=bool(rng.integers(2)),
    **changes,
  )


def write(folder, config):
  folder.mkdir()
  raw = families.to_dict(config)
  (folder / "config.json").write_text(json.dumps(raw))
  return folder


@pytest.mark.parametrize("family", families.FAMILIES)
@pytest.mark.parametrize("seed", range(5))
def test_models_of_any_shape(family, seed, tmp_path, monkeypatch):
  rng = np.random.default_rng(seed)
  dtype = str(rng.choice(["float32", "float16"]))
  target = random_config(rng, model_type=family, dtype=dtype)
  draft = random_config(rng, model_type=family)
  folders = write(tmp_path / "a", target), write(tmp_path / "b", draft)
  config = made(*folders, **FIELDS)
  found = estimates.of(config)
  assert found.memory == of_a_run(config, monkeypatch)
  for one, folder in zip((target, draft), folders, strict=True):
    own = models_lib.read(folder / "config.json")
    assert own.weights == layout.size(families.leaves(one), one)
    assert own.dtype == one.dtype


@pytest.fixture(scope="module")
def layouts(tmp_path_factory):
  """Of every repository that configs/ names, its files at a small size."""
  folder = tmp_path_factory.mktemp("layouts")
  texts = [
    t for q in questions_lib.load_questions("minibench") for t in q.turns
  ]
  for name in ("llama3_8b", "llama3_1b", "llama2_7b", "llama_68m", "vicuna_7b"):
    getattr(published, name)(folder / name, texts)
  published.eagle_vicuna(folder / "eagle_vicuna", folder / "vicuna_7b")
  return folder


@pytest.mark.parametrize(
  ("target", "draft", "kind"),
  [
    ("llama3_8b", "llama3_1b", "independent"),
    ("llama2_7b", "llama_68m", "independent"),
    ("vicuna_7b", "eagle_vicuna", "eagle"),
  ],
)
@pytest.mark.parametrize("dtype", ["float32", "float16"])
def test_published_layouts(layouts, target, draft, kind, dtype, monkeypatch):
  pair = layouts / target, layouts / draft
  config = made(*pair, kind, **FIELDS, **{"models.dtype": dtype})
  assert estimates.of(config).memory == of_a_run(config, monkeypatch)


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
  model = models_lib.PUBLISHED[name]
  assert model.weights == count * sizes.itemsize(model.dtype)


@pytest.mark.parametrize(
  "name", ["llama3_1b_8b", "llama2_68m_7b", "vicuna_eagle"]
)
def test_every_pair_of_configs_is_known(name):
  config = importlib.import_module(f"configs.{name}").get_config()
  assert sum(estimates.of(config).memory.values()) > 1e10


@pytest.mark.parametrize(
  "text",
  [
    "eagle",
    "chain:1",
    "chain:7",
    "kary:2x5",
    "kary:5x3",
    "branching:4,2,2,1",
    "adaptive:4,6,6,5,4",
  ],
)
def test_shapes(text):
  assert shapes.of(text) == sizes.shape(tree.parse(text))
  if not text.startswith("adaptive"):
    assert shapes.is_chain(text) == tree.parse(text).is_chain


@pytest.mark.parametrize("nodes", [2, 5, 6, 7, 64, 768])
def test_a_grown_tree_is_at_least_so_large(nodes):
  least, there = shapes.of(f"grown:{nodes}"), tree.parse(f"grown:{nodes}")
  assert least.nodes == len(there)
  assert least.inner <= len(there.inner)
  assert least.depth <= there.max_depth


@pytest.mark.parametrize(
  "content",
  [
    [-1, 0, 0, 1],
    [[0], [1], [0, 0], [0, 0, 0]],
    {"parents": [-1, 0, 0, 1], "rule": "traversal"},
  ],
)
def test_a_tree_in_a_file(content, tmp_path):
  path = tmp_path / "tree.json"
  path.write_text(json.dumps(content))
  assert shapes.of(str(path)) == sizes.shape(tree.parse(str(path)))


def test_every_kind_of_draft_is_known():
  follow = {kind: way.follows_target for kind, way in drafting.KINDS.items()}
  assert follow == models_lib.HEADS
  assert {*families.FAMILIES} == {*models_lib.NORMS}


def test_what_never_runs_on_trees():
  found = [
    rule.name
    for rule in verifiers.VERIFIERS.values()
    if rule.defined_on is verifiers.chains_only
  ]
  assert tuple(found) == hours_lib.CHAINS_ALONE


@pytest.mark.parametrize(
  ("fields", "words"),
  [
    ({"models.target": "nobody/nothing"}, "'nobody/nothing' is not known"),
    ({"models.target": ""}, "'' is not known"),
    ({"models.target": "a" * 9999}, "is not known"),
    ({"models.draft": "bundled/other"}, "'bundled/other' is not known"),
    ({"models.draft": "{folder}"}, "config.json cannot be read"),
    ({"models.draft_kind": "other"}, "'other' takes is not known"),
    ({"trees": "eagle my.tree:TREE"}, "the tree 'my.tree:TREE' is not known"),
    ({"trees": "kary:9x99"}, "is no tree of at most 4096 nodes"),
    ({"trees": "chain:9999"}, "is no tree of at most 256 levels"),
    ({"trees": "chain:99999999999"}, "is not known"),
    ({"trees": "chain:0"}, "is no tree"),
    ({"trees": "missing.json"}, "missing.json cannot be read"),
  ],
)
def test_what_is_not_known_is_said(fields, words, tmp_path):
  config = made("bundled/target", "bundled/draft")
  config.update_from_flattened_dict(
    {k: v.format(folder=tmp_path) for k, v in fields.items()}
  )
  found = estimates.of(config)
  assert found.memory is None
  assert words in found.memory_rests_on
  assert found.line.startswith("memory unknown (")
  assert "\n" not in found.line


@pytest.mark.parametrize(
  "changes",
  [
    {"model_type": "mamba"},
    {"model_type": ["llama"]},
    {"hidden_size": None},
    {"hidden_size": "8"},
    {"num_attention_heads": 0},
    {"torch_dtype": "int4"},
  ],
)
def test_a_config_json_that_says_no_size(changes, tmp_path):
  folder = write(tmp_path / "model", checkpoints.tiny())
  checkpoints.rewrite(folder, **changes)
  found = estimates.of(made(folder, "bundled/draft"))
  assert found.memory is None
  assert str(folder) in found.memory_rests_on


def test_a_config_that_lacks_a_field():
  config = quickstart.get_config()
  del config.batch_size
  assert "batch_size" in estimates.of(config).line


def test_a_file_that_is_no_tree(tmp_path):
  for content in ("[]", "3", "[-1, 9]", '["a"]', "[[0], 1]", "[{}]", "x"):
    (tmp_path / f"{len(content)}.json").write_text(content)
    with pytest.raises(ValueError, match=r"\.json"):
      shapes.of(str(tmp_path / f"{len(content)}.json"))


def hours(config=None, **fields):
  config = config or llama3_1b_8b.get_config()
  config.timing.per_task = 0
  config.update_from_flattened_dict(fields)
  return estimates.of(config)


def test_hours_are_tokens_by_the_papers_speed():
  found = hours(trees="chain:5", verifiers="traversal", plain=False, seeds=(0,))
  assert found.hours == pytest.approx(560 * 1024 / 52.5 / 3600)
  assert found.line.endswith(
    "at most 3.0 h of decoding (at the paper's 52.5 tokens/s, batch 1, one RTX"
    " A6000; batches are faster; of 480 questions, as published)"
  )


def test_hours_are_of_all_cells():
  table = paper.LLAMA2
  speeds = [table.plain.mean]
  for row in table.tokens_per_second.values():
    speeds += [row.token_level.mean, row.traversal.mean]
  assert len(speeds) == 7
  config = llama2_68m_7b.get_config()
  seconds = 560 * 1024 * 3 * sum(1 / speed for speed in speeds)
  assert hours(config).hours == pytest.approx(seconds / 3600)
  assert "37.3 to 71.2 tokens/s" in hours(config).line
  both = hours(config, temperatures=(0.5, 1.0)).hours
  assert both == pytest.approx(2 * seconds / 3600)


def test_hours_of_some_questions():
  whole = hours().hours
  assert hours(tasks="qa").hours == pytest.approx(whole * 80 / 560)
  assert hours(tasks="mt_bench rag").hours == pytest.approx(whole * 240 / 560)
  assert hours(per_task=2).hours == pytest.approx(whole * 14 / 560)


def test_timing_takes_its_own_time():
  config = llama3_1b_8b.get_config()
  whole = estimates.of(config).hours
  # Five first turns of six tasks, and one for compiling; of one seed.
  assert whole / hours().hours == pytest.approx(1 + 31 / (560 * 3))


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
  found = hours(trees="chain:5 eagle", verifiers="block", plain=False)
  assert found.hours == pytest.approx(560 * 1024 * 3 / 51.2 / 3600)
  assert "block as its slower rule" in found.line


def test_a_copy_in_a_folder_is_timed(tmp_path):
  config = llama3_1b_8b.get_config()
  for kind in ("target", "draft"):
    model = models_lib.PUBLISHED[config.models[kind]]
    raw = model._asdict() | {"torch_dtype": model.dtype}
    del raw["dtype"]
    (tmp_path / kind).mkdir()
    (tmp_path / kind / "config.json").write_text(json.dumps(raw))
    config.models[kind] = str(tmp_path / kind)
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
    ({"models.draft": "nobody/nothing"}, "this pair"),
  ],
)
def test_no_speed_is_known(fields, what):
  found = hours(**fields)
  assert found.hours is None
  assert found.line.endswith(
    f"hours unknown (no speed is known: the paper prints none for {what})"
  )


def test_nothing_to_ask_or_decode():
  assert "'poetry' is none of the questions'" in hours(tasks="poetry").line
  assert "nothing to decode" in hours(trees="", plain=False).line


def test_a_line():
  found = estimates.Estimate(
    {"weights": 18_400_000_000, "caches": 440_000_000, "records": 9},
    "",
    3.1,
    "so",
  )
  assert found.line == (
    "at least 18.8 GB (weights 18.4, caches 0.4), at most 3.1 h of decoding"
    " (so)"
  )
  found = hours(made("bundled/target", "bundled/draft", **FIELDS))
  assert " MB (weights " in found.line
  config = made("bundled/target", "bundled/draft", **{"models.devices": 2})
  assert "where prompts are short, on each of 2 devices)" in hours(config).line


def test_a_thousand_units_are_estimated_at_once():
  one = names.find("main_table")
  config = llama3_1b_8b.get_config()
  pairs = []
  for i in range(334):
    own = config.copy_and_resolve_references().unlock()
    own.experiment = f"pair-{i}"
    pairs.append(Pair("llama3_1b_8b", own, ()))
  begin = time.process_time()
  found = units.expand(one, pairs, pathlib.Path("runs"))
  told = [
    estimates.of(shard.of(pair.config)).line
    for pair in pairs
    for shard in experiment.shards(main_table.EXPERIMENT, pair.config, False)
  ]
  assert len(found) == len(told) == 1002
  assert time.process_time() - begin < 2


def test_no_jax_is_imported():
  body = (
    "import sys; from launch import estimates; from configs import quickstart;"
    " print(estimates.of(quickstart.get_config()).line);"
    " sys.exit(not {'jax', 'flax', 'transformers'}.isdisjoint(sys.modules))"
  )
  done = subprocess.run(
    [sys.executable, "-c", body], check=False, capture_output=True, text=True
  )
  assert done.returncode == 0, done.stderr
  assert done.stdout.startswith("at least ")
