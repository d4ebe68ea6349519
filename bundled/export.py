"""Trained parameters in Hugging Face's own layout."""

import dataclasses
import json
import pathlib

import jax
import jax.numpy as jnp
import tokenizers

from bundled import tokens
from tv_jax import models
from tv_jax.models.config import Config

DTYPE = "bfloat16"


def write(
  directory: pathlib.Path,
  tokenizer: tokenizers.Tokenizer,
  config: Config,
  params: dict,
) -> None:
  """Writes a model with its tokenizer, or an EAGLE head."""
  own = {
    "config": dataclasses.replace(config, dtype=DTYPE),
    "params": jax.tree.map(lambda leaf: leaf.astype(jnp.dtype(DTYPE)), params),
    "apply": None,
    "mesh": None,
    "source": "trained",
  }
  if "fc" in params["params"]:
    models.save(directory, models.Head(**own, bias=True))
    return
  models.save(directory, models.Model(**own))
  tokens.save(tokenizer, directory, config.max_position_embeddings)
  ends = {
    "bos_token_id": tokens.BOS,
    "eos_token_id": tokens.END,
    "pad_token_id": tokens.PAD,
  }
  text = json.dumps(ends, indent=2) + "\n"
  (directory / "generation_config.json").write_text(text)
