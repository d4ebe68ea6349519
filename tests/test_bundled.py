"""The models that are shipped."""

import pathlib

import numpy as np
import pytest

import tv_jax
from tests import checkpoints
from tv_jax import models
from tv_jax.edge import reading
from tv_jax.models import templates, tokenizers
from tv_jax.runs import questions as questions_lib

BUNDLED = reading.BUNDLED
LLAMAS = ("target", "draft", "draft_weak")


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


@pytest.mark.long
def test_most_of_minibench_is_answered_right(pair):
  questions = questions_lib.load_questions("minibench")
  some = questions_lib.limit(questions, per_task=4)
  asked = [question.turns[0] for question in some]
  told = {"verifier": None, "temperature": 0, "template": "chat"}
  answers = tv_jax.generate(pair, asked, max_new_tokens=160, **told).text
  right = [
    any(questions_lib.score(text, one) for one in question.references[0])
    for question, text in zip(some, answers, strict=True)
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
