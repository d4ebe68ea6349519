"""The bundled models' training: the tokenizer, rows, losses, resuming."""

import dataclasses
import json
import random

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from bundled import __main__ as commands
from bundled import data, losses, settings, tasks, tokens, training
from bundled.data import Rows
from bundled.settings import Data
from tests import checkpoints
from tv_jax.models import cache as caches
from tv_jax.models import eagle as eagles
from tv_jax.models import families, mask, templates, tokenizers

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
    SETTINGS.vocab_size, SETTINGS.tokenizer_conversations, text
  )
  ids = tokenizer.encode(text, add_special_tokens=False).ids
  return data.Corpus(
    tokenizer=tokenizer, source=np.array(ids, np.int32), settings=SETTINGS
  )


@pytest.fixture(scope="module")
def automatic(corpus, tmp_path_factory):
  """The tokenizer as transformers loads it from beside a Llama."""
  directory = tmp_path_factory.mktemp("tokenizer")
  tokens.save(corpus.tokenizer, directory, 1024)
  (directory / "config.json").write_text(json.dumps({"model_type": "llama"}))
  return tokenizers.load_tokenizer(directory)


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
  assert ids[-1] == tokens.END
  assert answer[len(start) :].all()


def test_rows_hold_whole_documents(corpus):
  rows = corpus.rows("target", 0, 16)
  assert rows.tokens.shape == (16, SETTINGS.length)
  begins = rows.tokens == tokens.BOS
  assert np.array_equal(begins, (rows.positions == 0) & (rows.document >= 0))
  for i in range(16):
    documents = rows.document[i]
    kept = documents[documents >= 0]
    assert np.array_equal(np.unique(kept), np.arange(kept[-1] + 1))
    assert (np.diff(kept) >= 0).all()
  assert np.array_equal(corpus.rows("target", 0, 2).tokens, rows.tokens[:2])
  # The token after an answer's last is the next document's: not predicted.
  following = np.roll(begins, -1, axis=1)
  following[:, -1] = True
  assert not rows.weights[following].any()
  assert not rows.answer[following].any()
  alone = (rows.weights[:, :-1] == SETTINGS.source_weight).all(axis=1)
  assert alone.any()
  assert not rows.answer[alone].any()


# Packed rows are the same as documents on their own.

DOCUMENTS = [slice(0, 7), slice(7, 16), slice(16, 20)]
CONFIG = checkpoints.tiny(tie_word_embeddings=True)
llama = jax.jit(losses.llama, static_argnums=0)
eagle = jax.jit(losses.eagle, static_argnums=0)


@pytest.fixture(scope="module")
def target():
  return checkpoints.ours(CONFIG)


@pytest.fixture(scope="module")
def head():
  """A random head, with attention that is far from uniform."""
  config = dataclasses.replace(CONFIG, num_hidden_layers=1)
  params = eagles.init(jax.random.key(3), config, bias=True)
  return config, jax.tree.map(lambda x: 10 * x if x.ndim > 1 else x, params)


@pytest.fixture(scope="module")
def rows():
  """One row: three documents and some padding."""
  T = DOCUMENTS[-1].stop + 3
  document = np.full([1, T], -1, np.int32)
  positions = np.zeros([1, T], np.int32)
  weights = np.zeros([1, T], np.float32)
  for i, own in enumerate(DOCUMENTS):
    document[0, own] = i
    positions[0, own] = np.arange(own.stop - own.start)
    weights[0, own.start : own.stop - 1] = 1
  return Rows(
    tokens=checkpoints.tokens(1, T, CONFIG.vocab_size),
    positions=positions,
    document=document,
    weights=weights,
    answer=weights,
  )


def test_a_document_does_not_see_its_neighbours(target, rows):
  logits, _ = llama(CONFIG, target.params, rows)
  for own in DOCUMENTS:
    alone = target.logits(rows.tokens[:, own])
    np.testing.assert_allclose(logits[:, own], alone, rtol=1e-4, atol=1e-4)


def test_the_head_is_fed_as_at_drafting_time(target, head, rows):
  config, params = head
  features = llama(CONFIG, target.params, rows)[1]
  logits, predicted = eagle(config, params, rows, features)
  apply = jax.jit(eagles.Eagle(config, bias=True).apply)
  for own in DOCUMENTS:
    # Token 1 beside feature 0, at position 0, and so on.
    tokens = rows.tokens[:, own][:, 1:]
    T = tokens.shape[1]
    cache = caches.empty(config, 1, T)
    alone, theirs, _ = apply(
      params,
      tokens,
      features[:, own][:, :-1],
      jnp.arange(T)[None],
      mask.causal(cache.length, T, T),
      cache,
    )
    there = slice(own.start, own.stop - 1)
    np.testing.assert_allclose(logits[:, there], alone, rtol=1e-4, atol=1e-4)
    np.testing.assert_allclose(
      predicted[:, there], theirs, rtol=1e-4, atol=1e-4
    )


def test_a_stopped_run_goes_on_to_the_same_weights(tmp_path):
  told = dataclasses.replace(
    settings.SMOKE,
    data=settings.Data(
      vocab_size=400, tokenizer_conversations=60, source_bytes=20_000, length=64
    ),
  )
  corpus = commands.make_corpus(told.data, tmp_path / "tokenizer.json")
  config = settings.llama_config(told.data, told.shapes["draft_weak"])
  schedule = settings.Schedule(steps=12, decay=4, rows=2, warmup=2)

  def train(folder, steps=12):
    return training.train(
      "draft",
      lambda *arguments: losses.text(config, *arguments),
      families.init(jax.random.key(0), config),
      jax.random.key(1),
      corpus,
      # The rate of the first steps knows nothing of the last.
      dataclasses.replace(schedule, steps=steps, decay=max(steps - 8, 1)),
      tmp_path / folder,
    )

  whole = train("whole")
  train("stopped", steps=8)
  again = train("stopped")
  assert jax.tree.all(jax.tree.map(jnp.array_equal, whole, again))
