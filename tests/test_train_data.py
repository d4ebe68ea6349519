"""The tokenizer and the rows that are trained on."""

import json
import random

import numpy as np
import pytest

from bundled import data, tasks, tokens
from bundled.settings import Data
from tv_jax.models import templates, tokenizers

SETTINGS = Data(
  vocab_size=500,
  tokenizer_conversations=120,
  source_bytes=30_000,
  length=256,
  source_rows=0.25,
  prompt_weight=0.25,
  source_weight=0.5,
)


@pytest.fixture(scope="module")
def corpus():
  text = tokens.read_source(SETTINGS.source_bytes)
  tokenizer = tokens.train(
    SETTINGS.vocab_size, SETTINGS.tokenizer_conversations, text, seed=0
  )
  ids = tokenizer.encode(text, add_special_tokens=False).ids
  return data.Corpus(
    tokenizer=tokenizer,
    source=np.array(ids, np.int32),
    settings=SETTINGS,
    seed=0,
  )


@pytest.fixture(scope="module")
def automatic(corpus, tmp_path_factory):
  """The tokenizer as transformers loads it from beside a Llama."""
  directory = tmp_path_factory.mktemp("tokenizer")
  tokens.save(corpus.tokenizer, directory, 1024)
  (directory / "config.json").write_text(json.dumps({"model_type": "llama"}))
  return tokenizers.load_tokenizer(directory)


def test_the_tokenizer_is_the_same_each_time(corpus):
  again = tokens.train(
    SETTINGS.vocab_size,
    SETTINGS.tokenizer_conversations,
    tokens.read_source(SETTINGS.source_bytes),
    seed=0,
  )
  assert again.to_str() == corpus.tokenizer.to_str()


def test_special_tokens(corpus, automatic):
  for i, text in enumerate(tokens.SPECIAL):
    assert corpus.tokenizer.token_to_id(text) == i
  assert automatic.pad_token_id == tokens.PAD
  assert automatic.bos_token_id == tokens.BOS
  assert automatic.eos_token_id == tokens.END
  assert len(automatic) == SETTINGS.vocab_size


@pytest.mark.parametrize("task", tasks.TASKS)
def test_a_chat_is_encoded_as_in_training(corpus, automatic, task):
  one = tasks.generate(task, random.Random(3))
  ids, answer = data.encode(corpus.tokenizer, one)
  turns = [one.turns[0]]
  start = templates.encode("chat", automatic, turns)
  assert list(ids[: len(start)]) == start
  assert not answer[: len(start)].any()
  for reply, turn in zip(one.answers, one.turns[1:], strict=False):
    turns += [reply, turn]
    start = templates.encode("chat", automatic, turns)
    assert list(ids[: len(start)]) == start
  reply = automatic.decode(ids[len(start) :], skip_special_tokens=True)
  assert reply == one.answers[-1]
  assert ids[-1] == tokens.END
  assert answer[len(start) :].all()
  assert answer.sum() < len(ids) / 1.2


@pytest.mark.parametrize(
  "text", ["Ärger  mit\tZahlen: 1203,5\n", "日本語 🙂", "def f(x):\n  return x"]
)
def test_any_text_comes_back(automatic, corpus, text):
  ids = automatic(text).input_ids
  assert ids == corpus.tokenizer.encode(text).ids
  assert ids[0] == tokens.BOS
  assert automatic.decode(ids[1:]) == text


def test_digits_are_single_tokens(corpus):
  for one in corpus.tokenizer.encode("4096 and 17").tokens:
    assert len([letter for letter in one if letter.isdigit()]) <= 1


def test_rows_depend_on_seed_stage_and_step_alone(corpus):
  first = corpus.rows("target", 3, 4)
  again = corpus.rows("target", 3, 4)
  for name in ("tokens", "positions", "document", "weights", "answer"):
    assert np.array_equal(getattr(first, name), getattr(again, name))
  few = corpus.rows("target", 3, 2)
  assert np.array_equal(few.tokens, first.tokens[:2])
  for other in (corpus.rows("target", 4, 4), corpus.rows("draft", 3, 4)):
    assert not np.array_equal(other.tokens, first.tokens)


def test_rows_hold_whole_documents(corpus):
  rows = corpus.rows("target", 0, 8)
  assert rows.tokens.shape == (8, SETTINGS.length)
  begins = rows.tokens == tokens.BOS
  assert np.array_equal(begins, (rows.positions == 0) & (rows.document >= 0))
  for i in range(8):
    documents = rows.document[i]
    kept = documents[documents >= 0]
    assert np.array_equal(np.unique(kept), np.arange(kept[-1] + 1))
    assert (np.diff(kept) >= 0).all()
  # The token after an answer's last is the next document's: not predicted.
  following = np.roll(begins, -1, axis=1)
  following[:, -1] = True
  assert not rows.weights[following].any()
  assert not rows.answer[following].any()
  assert (rows.weights[rows.answer > 0] == 1).all()
  assert set(np.unique(rows.weights)) <= {0, 0.25, 0.5, 1}


def test_what_is_weighed_as_an_answer_is_one(corpus):
  rows = corpus.rows("target", 1, 4)
  i = np.flatnonzero(rows.answer.any(axis=1))[0]
  ids = rows.tokens[i]
  after = np.flatnonzero(rows.answer[i]) + 1
  runs = np.split(after, np.flatnonzero(np.diff(after) > 1) + 1)
  for run in runs:
    assert ids[run[0] - 1] == tokens.ASSISTANT
    assert ids[run[-1]] == tokens.END


def test_some_rows_are_source_text_alone(corpus):
  rows = corpus.rows("target", 0, 64)
  alone = (rows.weights[:, :-1] == SETTINGS.source_weight).all(axis=1)
  assert 0.1 < alone.mean() < 0.4
  assert not rows.answer[alone].any()


def test_the_sources_are_read_in_order():
  long = tokens.read_source(50_000)
  assert long.startswith(tokens.read_source(20_000))
  assert 49_000 < len(long.encode()) <= 50_100
  assert tokens.read_source(0) == ""
