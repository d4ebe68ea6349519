"""One stage of training, and what is written at its end."""

import dataclasses
import json
import pathlib
from collections.abc import Callable

import jax
import jax.numpy as jnp
import tokenizers
from absl import logging

from bundled import tokens
from bundled.data import Corpus
from tv_jax import models
from tv_jax.distill import training
from tv_jax.distill.training import Schedule
from tv_jax.models import eagle, families
from tv_jax.models.config import Config

# Steps between lines of the log.
_LOG = 10


def train(
  stage: str,
  loss: Callable,
  params: dict,
  key: jax.Array,
  corpus: Corpus,
  schedule: Schedule,
  path: pathlib.Path,
  frozen: tuple = (),
) -> dict:
  """Trains what is called `stage`, or goes on; see `distill.training.train`."""

  def say(number, total, _, seen):
    if number % _LOG == 0 or number == total:
      told = {name: round(float(value), 5) for name, value in seen.items()}
      logging.info("%s, step %d of %d: %s", stage, number, total, told)

  return training.train(
    loss,
    params,
    key,
    lambda step: corpus.rows(stage, step, schedule.rows),
    schedule,
    path,
    frozen,
    say=say,
  )


def export(
  directory: pathlib.Path,
  tokenizer: tokenizers.Tokenizer,
  config: Config,
  params: dict,
) -> None:
  """Writes a model with its tokenizer, or an EAGLE head, as Hugging Face."""
  dtype = "bfloat16"
  config = dataclasses.replace(config, dtype=dtype)
  params = jax.tree.map(lambda leaf: leaf.astype(jnp.dtype(dtype)), params)
  head = "fc" in params
  module = eagle.Eagle(config, bias=True) if head else families.module(config)
  models.save(
    directory, models.Model(module=module, params=params, source="trained")
  )
  if head:
    return
  tokens.save(tokenizer, directory, config.max_position_embeddings)
  ends = {
    "bos_token_id": tokens.BOS,
    "eos_token_id": tokens.END,
    "pad_token_id": tokens.PAD,
  }
  text = json.dumps(ends, indent=2) + "\n"
  (directory / "generation_config.json").write_text(text)
