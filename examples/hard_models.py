"""Writes tiny models and prompts that another engine is tested with.

    python -m examples.hard_models hard

docs/samplers.md describes how to use the folder. The models are hard to sample
from: two tokens always have the same probability, and after the three prompts
the target is nearly certain, nearly uniform, and most unlike the draft. All
weights are bfloat16 numbers, so that an engine that computes in bfloat16 loads
the same weights.
"""

import dataclasses
import json
import pathlib

import jax
import jax.numpy as jnp
import numpy as np
from absl import flags

from tv_jax import probs
from tv_jax.certify.engine import tiny_pairs
from tv_jax.io import cli, disk
from tv_jax.io.errors import UserError
from tv_jax.models import Model, decoder, save
from tv_jax.models.model import init

# Many engines have no kernels for smaller attention heads.
_SIZES = {"hidden_size": 128, "intermediate_size": 256, "head_dim": 64}
_SCALE = 2.0  # of the matrices, so that every token and position matters
_LENGTH, _CANDIDATES = 6, 400  # tokens of a prompt; prompts to choose from


def random_model(layers: int, seed: int) -> Model:
  """Makes a model that gives tokens 0 and 1 the same probability."""
  config = dataclasses.replace(
    tiny_pairs.TARGET,
    **_SIZES,
    num_hidden_layers=layers,
    max_position_embeddings=512,
  )
  rng, module = np.random.default_rng(seed), decoder.Decoder(config)
  shapes = jax.eval_shape(lambda: init(jax.random.key(0), module))

  def make(leaf):
    mean, scale = (1, 0.1) if leaf.ndim == 1 else (0, _SCALE / 128**0.5)
    drawn = jnp.asarray(rng.normal(mean, scale, leaf.shape), jnp.bfloat16)
    return jnp.asarray(drawn, jnp.float32)

  params = jax.tree.map(make, shapes)
  matrix = params["unembedding"]
  params["unembedding"] = matrix.at[1].set(matrix[0])
  return Model(module=module, params=params, source="random")


def choose_prompts(target: Model, draft: Model, seed: int) -> list[list[int]]:
  """Chooses three random prompts of equal length, to avoid padding."""
  V = target.config.vocab_size
  tried = np.random.default_rng(seed).integers(0, V, (_CANDIDATES, _LENGTH))
  p, q = (
    np.asarray(probs.from_logits(model.logits(tried)[:, -1]))
    for model in (target, draft)
  )
  chosen = []
  for order in (-p.max(axis=1), p.max(axis=1), -np.abs(p - q).sum(axis=1)):
    ranked = [i for i in np.argsort(order, kind="stable") if i not in chosen]
    chosen.append(ranked[0])
  return tried[chosen].tolist()


def write(folder: pathlib.Path, seed: int = 0) -> None:
  """Writes target/, draft/ and prompts.jsonl."""
  target, draft = random_model(2, 2 * seed), random_model(1, 2 * seed + 1)
  words = {f"t{token}": token for token in range(target.config.vocab_size)}
  # Written by hand: transformers 5 saves a class that transformers 4 lacks.
  tokenizer = {
    "version": "1.0",
    "added_tokens": [],
    "pre_tokenizer": {"type": "WhitespaceSplit"},
    "model": {"type": "WordLevel", "vocab": words, "unk_token": "t0"},
  }
  # Engines sample with these settings unless they are given others.
  sampling = {"do_sample": True, "temperature": 1.0, "top_k": 0, "top_p": 1.0}
  files = {
    "tokenizer.json": tokenizer,
    "tokenizer_config.json": {"tokenizer_class": "PreTrainedTokenizerFast"},
    "generation_config.json": sampling,
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


def main(arguments: list[str]) -> None:
  """Writes to the folder that the command line names."""
  if len(arguments) != 1:
    raise UserError("give the folder to write")
  folder = pathlib.Path(arguments[0])
  if folder.exists():
    raise UserError(f"{folder} exists: give a new folder")
  write(folder, flags.FLAGS.seed)
  print(f"written: target, draft and prompts.jsonl in {folder}")


if __name__ == "__main__":  # tests import this file beside other commands
  flags.DEFINE_integer("seed", 0, "Seed of the models and prompts.", 0)
  cli.run("examples.hard_models", main, arguments=True)
