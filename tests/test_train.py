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


def test_the_tokenizer_is_the_same_each_time(corpus):
  again = tokens.train(
    SETTINGS.vocab_size,
    SETTINGS.tokenizer_conversations,
    tokens.read_source(SETTINGS.source_bytes),
  )
  assert again.to_str() == corpus.tokenizer.to_str()


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


# Packed rows are the same as documents on their own.

LENGTHS = (7, 9, 4)
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
  T = sum(LENGTHS) + 3
  document = np.full([1, T], -1, np.int32)
  positions = np.zeros([1, T], np.int32)
  weights = np.zeros([1, T], np.float32)
  start = 0
  for i, length in enumerate(LENGTHS):
    document[0, start : start + length] = i
    positions[0, start : start + length] = np.arange(length)
    weights[0, start : start + length - 1] = 1
    start += length
  return Rows(
    tokens=checkpoints.tokens(1, T, CONFIG.vocab_size),
    positions=positions,
    document=document,
    weights=weights,
    answer=weights,
  )


def documents(rows):
  start = 0
  for length in LENGTHS:
    yield slice(start, start + length)
    start += length


def test_a_document_does_not_see_its_neighbours(target, rows):
  logits, features = llama(CONFIG, target.params, rows)
  assert features.shape == (*rows.tokens.shape, CONFIG.hidden_size)
  for own in documents(rows):
    alone = target.logits(rows.tokens[:, own])
    np.testing.assert_allclose(logits[:, own], alone, rtol=1e-4, atol=1e-4)


def test_the_head_is_fed_as_at_drafting_time(target, head, rows):
  config, params = head
  features = llama(CONFIG, target.params, rows)[1]
  logits, predicted = eagle(config, params, rows, features)
  apply = jax.jit(eagles.Eagle(config, bias=True).apply)
  for own in documents(rows):
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


def test_the_loss_of_text_is_its_cross_entropy(target, rows):
  loss, seen = losses.text(CONFIG, target.params, jax.random.key(0), rows)
  nats = []
  for own in documents(rows):
    tokens = rows.tokens[0, own]
    law = jax.nn.log_softmax(target.logits(tokens[None])[0])
    nats += [-float(law[i, t]) for i, t in enumerate(tokens[1:])]
  assert float(loss) == pytest.approx(np.mean(nats), rel=1e-5)
  assert float(seen["answer"]) == pytest.approx(np.mean(nats), rel=1e-5)


def test_every_parameter_is_trained(target, head, rows):
  config, params = head
  del (own := dict(params["params"]))["embedding"]
  slope = jax.jit(
    jax.grad(losses.head, argnums=3, has_aux=True), static_argnums=(0, 1)
  )(
    CONFIG,
    config,
    target.params,
    {"params": own},
    jax.random.key(0),
    rows,
  )[0]
  for leaf in jax.tree.leaves(slope):
    assert float(jnp.abs(leaf).max()) > 0


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
  rate = training.learning_rate(schedule)
  assert (float(rate(2)), float(rate(12))) == (pytest.approx(6e-3), 0)
