"""Packed rows are the same as documents on their own."""

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from bundled import __main__ as commands
from bundled import losses, settings, training
from bundled.data import Rows
from tests import checkpoints
from tv_jax.models import cache as caches
from tv_jax.models import eagle as eagles
from tv_jax.models import families, mask

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
  """What is left of a step that was cut off does not count."""
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
      checkpoint_every=4,
      log_every=4,
    )

  whole = train("whole")
  train("stopped", steps=8)
  (tmp_path / "stopped" / "state.partial").write_bytes(b"PK")
  again = train("stopped")
  assert jax.tree.all(jax.tree.map(jnp.array_equal, whole, again))
  first, last = (
    training.learning_rate(schedule)(2),
    float(training.learning_rate(schedule)(12)),
  )
  assert (float(first), last) == (pytest.approx(6e-3), 0)
