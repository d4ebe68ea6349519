"""The models that are shipped."""

import pathlib
import zipfile

import numpy as np
import pytest
from hatchling.builders.wheel import WheelBuilder

import tv_jax
from tests import checkpoints
from tv_jax import models
from tv_jax.edge import reading
from tv_jax.models import templates, tokenizers
from tv_jax.runs import questions as questions_lib

BUNDLED = reading.BUNDLED
LLAMAS = ("target", "draft", "draft_weak")
MEGABYTES = 14


@pytest.fixture(scope="module")
def pair():
  return tv_jax.load(None, BUNDLED / "target", draft_kind="none")


@pytest.fixture(scope="module")
def tokenizer():
  return tokenizers.load_tokenizer(BUNDLED / "target")


@pytest.fixture(scope="module")
def ids(tokenizer):
  """A question of MiniBench with its reference, as tokens [1, T]."""
  question = questions_lib.load_questions("minibench")[-1]
  turns = [*question.turns, "So: " + question.references[0][0], "Thanks."]
  return np.array([templates.encode("chat", tokenizer, turns[:3])], np.int32)


def test_everything_is_small():
  files = [path for path in BUNDLED.rglob("*") if path.is_file()]
  assert sum(path.stat().st_size for path in files) < MEGABYTES * 1e6


@pytest.mark.parametrize("name", LLAMAS)
def test_the_tokenizers_are_the_same_and_name_the_end(name, tokenizer):
  other = tokenizers.load_tokenizer(BUNDLED / name)
  text = "<|user|>Übersetze 17 + 4?<|end|>"
  assert other(text).input_ids == tokenizer(text).input_ids
  (end,) = tokenizers.end_tokens(BUNDLED / name)
  assert end == other.eos_token_id == tokenizer("<|end|>").input_ids[-1]


@pytest.mark.parity
@pytest.mark.parametrize("name", LLAMAS)
def test_transformers_gives_our_logits(name, ids):
  import torch
  import transformers

  theirs = transformers.AutoModelForCausalLM.from_pretrained(
    BUNDLED / name, dtype=torch.float32, attn_implementation="eager"
  ).eval()
  ours = models.load(BUNDLED / name, dtype="float32")
  error = checkpoints.error(ours.logits(ids), checkpoints.logits(theirs, ids))
  assert error < 1e-4


@pytest.mark.parity
def test_transformers_answers_as_we_do(pair):
  import torch
  import transformers

  theirs = transformers.AutoModelForCausalLM.from_pretrained(
    BUNDLED / "target", dtype=torch.float32
  ).eval()
  questions = questions_lib.load_questions("minibench")[20::40]
  ours = answers(pair, questions, 48)
  for question, answer in zip(questions, ours.tokens, strict=True):
    prompt = templates.encode("chat", pair.tokenizer, question.turns[:1])
    out = theirs.generate(
      torch.tensor([prompt]), do_sample=False, max_new_tokens=48
    )
    assert out[0, len(prompt) :].tolist() == answer


def answers(pair, questions, limit):
  """The target's own answers to first turns, at temperature 0."""
  return tv_jax.generate(
    pair,
    [question.turns[0] for question in questions],
    template="chat",
    verifier=None,
    temperature=0,
    max_new_tokens=limit,
  )


@pytest.mark.long
def test_most_of_minibench_is_answered_right(pair):
  questions = questions_lib.load_questions("minibench")
  some = questions_lib.limit(questions, per_task=4)
  right = [
    any(questions_lib.score(text, one) for one in question.references[0])
    for question, text in zip(some, answers(pair, some, 160).text, strict=True)
  ]
  assert np.mean(right) > 0.6


def test_what_is_bundled_has_a_name_that_is_no_place(tmp_path):
  for name in ("bundled/draft", "bundled/trees/draft-traversal.25.json"):
    place = reading.place_of(name)
    assert pathlib.Path(place).exists()
    assert reading.name_of(place) == name
  assert reading.name_of(tmp_path) == reading.place_of(str(tmp_path))
  for path in (BUNDLED / "trees").iterdir():
    assert str(BUNDLED) not in path.read_text()


def test_the_wheel_holds_them(tmp_path):
  root = pathlib.Path(__file__).parents[1]
  (path,) = WheelBuilder(str(root)).build(
    directory=str(tmp_path), versions=["standard"]
  )
  packed = set(zipfile.ZipFile(path).namelist())
  for file in BUNDLED.rglob("*"):
    if file.is_file():
      assert f"tv_jax/assets/bundled/{file.relative_to(BUNDLED)}" in packed


def test_a_pair_is_loaded_by_the_names_that_configs_have():
  pair = tv_jax.load("bundled/draft_weak", "bundled/target")
  assert pair.draft.source == str(BUNDLED / "draft_weak")
  assert pair.target.source == str(BUNDLED / "target")
  assert pair.tokenizer is not None
  with pytest.raises(ValueError, match="no_such"):
    tv_jax.load("bundled/no_such", "bundled/target")
