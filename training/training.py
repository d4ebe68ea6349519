"""The loss, a training stage, and the export of a model."""

import dataclasses
import functools
import pathlib

import jax
import jax.numpy as jnp
import optax
from absl import logging

from training import data
from training.settings import Schedule
from tv_jax import models
from tv_jax.distill import training
from tv_jax.models import cache as caches
from tv_jax.models import decoder, mask
from tv_jax.models.config import Config
from tv_jax.models.model import init

# Steps between lines of the log.
_LOG = 10


def loss(config: Config, params: dict, key: jax.Array, rows: dict):
  """Returns the weighted loss in nats per token."""
  del key
  document, read = rows["document"], rows["tokens"]
  same = document[:, :, None] == document[:, None, :]
  before = jnp.tri(document.shape[1], dtype=bool)[None]
  seen = mask.additive(same & before)
  cache = caches.empty(config, *read.shape)
  logits, *_ = decoder.Decoder(config).apply(
    {"params": params}, read, rows["positions"], seen, cache
  )
  following = jnp.roll(read, -1, axis=1)
  nats = optax.softmax_cross_entropy_with_integer_labels(logits, following)

  def mean(weights):
    return jnp.sum(nats * weights) / jnp.maximum(jnp.sum(weights), 1.0)

  return mean(rows["weights"])


def train(
  stage: str,
  config: Config,
  key: jax.Array,
  corpus: data.Corpus,
  schedule: Schedule,
  path: pathlib.Path,
) -> dict:
  """Runs or continues a training stage; see `distill.training.train`."""
  total = schedule.steps + schedule.again

  def log(number, value):
    if number % _LOG == 0 or number == total:
      logging.info("%s, step %d of %d: %.5f", stage, number, total, value)

  return training.train(
    functools.partial(loss, config),
    init(key, decoder.Decoder(config)),
    jax.random.fold_in(key, 1),  # not the key of the initial parameters
    lambda step: data.rows(corpus, stage, step, schedule.rows),
    schedule.learning_rate(),
    total,
    path,
    after_step=log,
  )


def export(directory: pathlib.Path, config: Config, params: dict) -> None:
  """Writes a model in bfloat16, in Hugging Face's layout."""
  config = dataclasses.replace(config, dtype="bfloat16")
  params = jax.tree.map(lambda leaf: leaf.astype(jnp.bfloat16), params)
  module = decoder.Decoder(config)
  model = models.Model(module=module, params=params, source="trained")
  models.save(directory, model)
