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
from tv_jax.models import Model, decoder, save
from tv_jax.models.model import init

# An engine's kernels know heads of this size, and few of smaller ones.
_SIZES = {"hidden_size": 128, "intermediate_size": 256, "head_dim": 64}
_SCALE = 2.0  # of the matrices: every token and position matters
_LENGTH, _CANDIDATES = 6, 400  # of a prompt, and how many are tried


def random_model(vocabulary: int, layers: int, seed: int) -> Model:
  """Makes a model of which two tokens are equally likely."""
  config = dataclasses.replace(
    cases.TARGET,
    **_SIZES,
    vocab_size=vocabulary,
    num_hidden_layers=layers,
    max_position_embeddings=512,
  )
  rng, module = np.random.default_rng(seed), decoder.Decoder(config)
  shapes = jax.eval_shape(lambda: init(jax.random.key(0), module))

  def make(leaf):
    mean, spread = (1, 0.1) if leaf.ndim == 1 else (0, _SCALE / 128**0.5)
    drawn = jnp.asarray(rng.normal(mean, spread, leaf.shape), jnp.bfloat16)
    return jnp.asarray(drawn, jnp.float32)

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
  chosen = []
  for order in (-p.max(axis=1), p.max(axis=1), -np.abs(p - q).sum(axis=1)):
    ranked = [i for i in np.argsort(order, kind="stable") if i not in chosen]
    chosen.append(ranked[0])
  return tried[chosen].tolist()


def write(folder: pathlib.Path, vocabulary: int, seed: int) -> None:
  """Writes target/, draft/ and prompts.jsonl."""
  target = random_model(vocabulary, 2, 2 * seed)
  draft = random_model(vocabulary, 1, 2 * seed + 1)
  words = {f"t{token}": token for token in range(vocabulary)}
  files = {
    # Of words with a space between, none of them special. By hand: transformers
    # 5 writes a class that 4 does not know.
    "tokenizer.json": {
      "version": "1.0",
      "added_tokens": [],
      "pre_tokenizer": {"type": "WhitespaceSplit"},
      "model": {"type": "WordLevel", "vocab": words, "unk_token": "t0"},
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
  for name, model in (("target", target), ("draft", draft)):
    save(folder / name, model)
    for file, raw in files.items():
      disk.write_json(folder / name / file, raw)
  lines = (
    {"prompt": prompt, "text": " ".join(f"t{token}" for token in prompt)}
    for prompt in choose_prompts(target, draft, seed)
  )
  text = "".join(f"{json.dumps(line)}\n" for line in lines)
  disk.write_atomic(folder / "prompts.jsonl", text)
