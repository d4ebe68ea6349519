"""Writes a target, a draft and prompts that an engine is to be tried with.

The laws are made to be hard: two tokens are always exactly as likely as each
other; after one prompt the target is nearly certain, after another it hardly
knows; the draft is another model, and after one prompt most unlike the target.
Weights are those of bfloat16, so that an engine that computes in it has the
same ones.
"""

from __future__ import annotations

import dataclasses
import json
import pathlib

import jax
import jax.numpy as jnp
import numpy as np

from tv_jax import probs
from tv_jax.certify.engine import cases
from tv_jax.edge import disk
from tv_jax.models import Config, Model, decoder, save
from tv_jax.models import params as params_lib

# An engine's kernels know heads of this size, and few of smaller ones.
_SIZES = {"hidden_size": 128, "intermediate_size": 256, "head_dim": 64}
_LENGTH, _CANDIDATES = 6, 400  # of a prompt, and how many are tried


def config(vocabulary: int, layers: int) -> Config:
  """Returns the shape of one of the two models."""
  return dataclasses.replace(
    cases.TARGET,
    **_SIZES,
    vocab_size=vocabulary,
    num_hidden_layers=layers,
    max_position_embeddings=512,
  )


def random_model(own: Config, seed: int, scale: float = 2.0) -> Model:
  """Makes a model in which every token and position matters."""
  rng, module = np.random.default_rng(seed), decoder.Decoder(own)
  shapes = jax.eval_shape(lambda: params_lib.init(jax.random.key(0), module))

  def make(leaf):
    mean, spread = (1, 0.1) if leaf.ndim == 1 else (0, own.hidden_size**-0.5)
    drawn = rng.normal(
      mean, spread * (scale if leaf.ndim > 1 else 1), leaf.shape
    )
    return jnp.asarray(jnp.asarray(drawn, jnp.bfloat16), jnp.float32)

  params = jax.tree.map(make, shapes)
  matrix = params["unembedding"]
  params["unembedding"] = matrix.at[:, 1].set(matrix[:, 0])  # a tie
  return Model(module=module, params=params, source="random")


def choose_prompts(target: Model, draft: Model, seed: int) -> list[list[int]]:
  """Returns those after which the target is surest, least sure, and least like.

  Of random ones, all of one length: engines batch them without padding.
  """
  V = target.config.vocab_size
  tried = np.random.default_rng(seed).integers(0, V, (_CANDIDATES, _LENGTH))
  p, q = (
    np.asarray(probs.law(model.logits(tried)[:, -1]))
    for model in (target, draft)
  )
  apart = np.abs(p - q).sum(axis=1)
  chosen = []
  for order in (-p.max(axis=1), p.max(axis=1), -apart):
    ranked = [i for i in np.argsort(order, kind="stable") if i not in chosen]
    chosen.append(ranked[0])
  return tried[chosen].tolist()


def write(folder: pathlib.Path, vocabulary: int, seed: int) -> list[list[int]]:
  """Writes target/, draft/ and prompts.jsonl; returns the prompts."""
  made = [
    random_model(config(vocabulary, layers), 2 * seed + i)
    for i, layers in enumerate((2, 1))
  ]
  for name, model in zip(("target", "draft"), made, strict=True):
    save(folder / name, model)
    _write_others(folder / name, vocabulary)
  prompts = choose_prompts(made[0], made[1], seed)
  lines = [
    json.dumps({"prompt": prompt, "text": " ".join(map(_word, prompt))})
    for prompt in prompts
  ]
  disk.write_atomic(folder / "prompts.jsonl", "\n".join(lines) + "\n")
  return prompts


def _word(token: int) -> str:
  return f"t{token}"


def _write_others(folder, vocabulary):
  """Writes a tokenizer of words with a space between, none of them special.

  By hand: transformers 5 writes a class that 4 does not know.
  """
  words = {_word(token): token for token in range(vocabulary)}
  files = {
    "tokenizer.json": {
      "version": "1.0",
      "added_tokens": [],
      "pre_tokenizer": {"type": "WhitespaceSplit"},
      "model": {"type": "WordLevel", "vocab": words, "unk_token": _word(0)},
    },
    "tokenizer_config.json": {"tokenizer_class": "PreTrainedTokenizerFast"},
    # What engines that read it sample with unless they are told.
    "generation_config.json": {
      "do_sample": True,
      "temperature": 1.0,
      "top_k": 0,
      "top_p": 1.0,
    },
  }
  for name, raw in files.items():
    disk.write_json(folder / name, raw, name)
