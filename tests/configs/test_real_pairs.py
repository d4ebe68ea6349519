"""The paper's pairs, from files laid out as theirs to a report."""

import csv
import functools
import json
import pathlib

import pytest
import sentencepiece

from configs import (
  llama2_68m_7b,
  llama3_1b_8b,
  llama3_eagle3,
  qwen2_coder,
  qwen3_8b,
  vicuna_eagle,
)
from tests.lib import checkpoints, published, quick
from tv_jax import drafting, models, runs
from tv_jax.models.checkpoint import Checkpoint
from tv_jax.runs import questions as questions_lib
from tv_jax.runs import report, store

ROOT = pathlib.Path(__file__).parents[2]
PAIRS = {  # the cheapest first
  "vicuna": vicuna_eagle.get_config,
  "qwen3-dflash": functools.partial(qwen3_8b.get_config, "dflash"),
  "qwen3-dspark": qwen3_8b.get_config,
  "qwen3-eagle3": functools.partial(qwen3_8b.get_config, "eagle3"),
  "llama2": llama2_68m_7b.get_config,
  "llama3": llama3_1b_8b.get_config,
  "llama3-eagle3": llama3_eagle3.get_config,
  "qwen2-coder": qwen2_coder.get_config,
}
# One tree, one rule, and answers that are hardly any.
SHORT = {
  "trees": "chain:2",
  "verifiers": "traversal",
  "baseline": "traversal",
  "plain": False,
  "seeds": (0,),
  "max_new_tokens": 3,
  "timing.per_task": 0,
}
POSITIONS = 1900  # below the limit of the configs, 1960
LONG = "A word, another word, and once more. " * POSITIONS
QUESTIONS = [
  (81, "writing", ["Write a line about rain.", "Now about snow."]),
  (141, "stem", [LONG, "And in short?"]),
  (161, "translation", ["Translate German to English: Der Hund schläft."]),
  (241, "summarization", ["Summarize: A ship came home. All were glad."]),
  (321, "qa", ["who wrote the first letter"]),
  (401, "math_reasoning", ["Anna has 3 apples and eats 1. How many are left?"]),
  (481, "rag", ["Document 1: Rome is old.\n\nQuestion: is Rome old?"]),
]


@pytest.fixture(scope="module")
def questions(tmp_path_factory):
  """A few questions in Spec-Bench's format; the second is too long."""
  path = tmp_path_factory.mktemp("questions") / "question.jsonl"
  rows = [
    {"question_id": number, "category": category, "turns": turns}
    for number, category, turns in QUESTIONS
  ]
  path.write_text("".join(json.dumps(row) + "\n" for row in rows))
  return path


@pytest.fixture(scope="module")
def files(tmp_path_factory):
  """The folders of target and draft of each pair."""
  folder = tmp_path_factory.mktemp("pairs")
  texts = [
    t for q in questions_lib.load_questions("minibench") for t in q.turns
  ]
  pairs = {name: (folder / f"{name}-target", folder / name) for name in PAIRS}
  short = {"max_position_embeddings": POSITIONS}
  merged, legacy = (
    functools.partial(make, texts=texts)
    for make in (published.merged, published.legacy)
  )
  llama3 = published.LLAMA3
  target, draft = pairs["llama3"]
  merged(target, settings=llama3)
  small = {"num_hidden_layers": 1, "tie_word_embeddings": True, **short}
  scaling = llama3["rope_scaling"] | {"factor": 32.0}
  merged(draft, settings=llama3, rope_scaling=scaling, **small)
  target, draft = pairs["llama2"]
  legacy(target, num_key_value_heads=2)
  legacy(draft, bos_token_id=0, torch_dtype="float32", **short)
  target, head = pairs["vicuna"]
  legacy(target, **short)
  models.save(head, checkpoints.ours_head(models.load(target)))
  # A head alone is not a model: its position limit does not matter.
  checkpoints.rewrite(head, bias=None, max_position_embeddings=8)
  target, head = pairs["llama3-eagle3"]
  merged(target, settings=llama3, num_hidden_layers=8, **short)
  models.save(head, checkpoints.ours_eagle3(models.load(target)))
  target, draft = pairs["qwen2-coder"]
  coder = {"settings": published.QWEN2_CODER, "unused": 16, **short}
  merged(target, num_hidden_layers=3, **coder)
  merged(draft, **coder)
  target = folder / "qwen3-target"
  qwen3 = {"head_dim": 8, "tie_word_embeddings": False, **short}
  merged(target, settings=published.QWEN3, **qwen3)
  model = models.load(target)
  for name, draft in (
    ("qwen3-dspark", checkpoints.ours_dspark(model, size=7)),
    ("qwen3-dflash", checkpoints.ours_dspark(model, rank=0, size=7)),
    ("qwen3-eagle3", checkpoints.ours_eagle3(model)),
  ):
    pairs[name] = target, folder / name
    models.save(folder / name, draft)
  return pairs


def config_of(name, files, questions, **changes):
  target, draft = map(str, files[name])
  places = {"models.target": target, "models.draft": draft}
  config = PAIRS[name]()
  config.update_from_flattened_dict(
    SHORT | places | {"questions": str(questions)} | changes
  )
  return config


@pytest.mark.parametrize("name", quick.shorter([*PAIRS]))
def test_a_run_from_published_files(name, questions, tmp_path, files):
  runs.run(config_of(name, files, questions, padded_to=256), tmp_path)
  report.write(tmp_path)
  unit = store.read(tmp_path)
  assert unit.done
  assert len(unit.items) == 9
  failed = (x for x in unit.items if "error" in x)
  errors = {(x["question"], x["turn"]): x["error"] for x in failed}
  assert errors.keys() == {(141, 0), (141, 1)}
  assert f"leaves no room for an answer in {POSITIONS}" in errors[141, 0]
  assert "an earlier turn failed" in errors[141, 1]
  for item in unit.items:
    most = SHORT["max_new_tokens"]
    assert "error" in item or 0 < len(item["tokens"]) <= most
    assert not item.get("faults")
  with (tmp_path / "cells.csv").open() as file:
    rows = list(csv.DictReader(file))
  assert [row["task"] for row in rows] == [
    "mt_bench",
    *questions_lib.OTHERS,
    "all",
  ]
  assert rows[-1]["failed"] == "2"


def test_the_pairs_are_what_their_files_say(files):
  pairs = {}
  for name in ("llama3", "llama2"):
    config = config_of(name, files, "minibench")
    pairs[name] = runs.load(runs.from_config(config))
  target, draft = pairs["llama3"].target.config, pairs["llama3"].draft.config
  ends = pairs["llama3"].tokenizer.convert_tokens_to_ids([*published.ENDS])
  assert pairs["llama3"].ends == tuple(ends)
  assert target.rope_scaling.factor == 8
  assert draft.rope_scaling.factor == 32
  assert draft.tie_word_embeddings
  assert not target.tie_word_embeddings
  # The draft's own start and end tokens are of no account.
  assert pairs["llama2"].ends == (2,)
  assert pairs["llama2"].tokenizer("a").input_ids[0] == 1
  target, head = files["vicuna"]
  assert drafting.load(head, models.load(target)).config.bias


def test_a_legacy_tokenizer_reads_as_its_own_library_does(files):
  """Nothing but tokenizer.model is there."""
  target, _ = files["vicuna"]
  path = str(target / "tokenizer.model")
  theirs = sentencepiece.SentencePieceProcessor(model_file=path)
  ours = Checkpoint.open(target).tokenizer
  for question in questions_lib.load_questions("minibench")[::10]:
    for text in (*question.turns, "Zürich, 12°\n\n  日本"):
      assert ours(text).input_ids == [1, *theirs.encode(text)]
