"""Tiny random checkpoints, made by transformers itself."""

import dataclasses
import functools
import json

import jax.numpy as jnp
import numpy as np

from benchmarks import gpu_shapes
from tv_jax.engine.pair import Pair
from tv_jax.models import Model, borrowed, decoder, dspark, eagle, eagle3
from tv_jax.models.config import Config

# By type. The positions that a test sees are few: small thetas and original
# lengths make every one of these settings matter there.
ROPE = {
  "default": {"rope_type": "default", "rope_theta": 100.0},
  "linear": {"rope_type": "linear", "rope_theta": 100.0, "factor": 4.0},
  "llama3": {
    "rope_type": "llama3",
    "rope_theta": 500.0,
    "factor": 8.0,
    "low_freq_factor": 1.0,
    "high_freq_factor": 4.0,
    "original_max_position_embeddings": 64,
  },
}

# What each family changes.
FAMILIES = {
  "llama1": {"num_key_value_heads": 4, "rms_norm_eps": 1e-6},
  "grouped": {"num_key_value_heads": 2},
  "one-group": {"num_key_value_heads": 1},
  "wide-heads": {"head_dim": 24},
  "linear": {"rope_parameters": ROPE["linear"]},
  "llama3": {"rope_parameters": ROPE["llama3"]},
  "llama3-tied": {
    "rope_parameters": ROPE["llama3"],
    "tie_word_embeddings": True,
  },
  "qwen2": {"model_type": "qwen2"},
  "qwen3": {"model_type": "qwen3", "head_dim": 24},
  "qwen3-tied": {
    "model_type": "qwen3",
    "num_key_value_heads": 1,
    "head_dim": 16,
    "tie_word_embeddings": True,
  },
}


def hugging_face(family, seed=0, **changes):
  """A transformers model with logits that depend on every setting."""
  import torch
  import transformers

  torch.manual_seed(seed)
  settings = {
    "model_type": "llama",
    "vocab_size": 96,
    "hidden_size": 64,
    "intermediate_size": 112,
    "num_hidden_layers": 3,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "max_position_embeddings": 512,
    "rms_norm_eps": 1e-5,
    "rope_parameters": ROPE["default"],
    # At 0.02 attention is nearly uniform, and positions hardly matter.
    "initializer_range": 0.2,
    "attn_implementation": "eager",
  }
  settings |= FAMILIES[family] | changes
  config = transformers.AutoConfig.for_model(**settings)
  model = transformers.AutoModelForCausalLM.from_config(config).eval()
  with torch.no_grad():
    # As small as in trained models; otherwise epsilon would not matter.
    model.model.embed_tokens.weight.mul_(0.1)
    for name, weight in model.named_parameters():
      if name.endswith(("q_norm.weight", "k_norm.weight")):  # initialised to 1
        weight.normal_(1.2, 0.4)
      if name.endswith("bias"):  # else all zeros
        weight.normal_(0, 0.5)
  return model


def logits(model, tokens):
  """A Hugging Face model's logits, as float32 NumPy."""
  import torch

  with torch.no_grad():
    return model(torch.from_numpy(tokens).long()).logits.float().numpy()


def tokens(batch, length, vocabulary=96, seed=0):
  rng = np.random.default_rng(seed)
  return rng.integers(0, vocabulary, (batch, length)).astype(np.int32)


def error(ours, theirs):
  """The largest difference as a share of the largest logit."""
  assert ours.shape == theirs.shape
  return np.max(np.abs(np.asarray(ours) - theirs)) / np.max(np.abs(theirs))


def rewrite(directory, **changes):
  """Changes a checkpoint's config.json; None removes a setting."""
  path = directory / "config.json"
  raw = json.loads(path.read_text()) | changes
  raw = {k: v for k, v in raw.items() if v is not None or k not in changes}
  path.write_text(json.dumps(raw))


def tiny(**changes):
  """A configuration of our own, for tests without transformers."""
  config = Config(
    vocab_size=48,
    hidden_size=32,
    intermediate_size=56,
    num_hidden_layers=2,
    num_attention_heads=4,
    num_key_value_heads=2,
    head_dim=8,
    rms_norm_eps=1e-5,
    rope_theta=100.0,
    rope_scaling=None,
    tie_word_embeddings=False,
    max_position_embeddings=512,
    dtype="float32",
    bos_token_id=1,
    eos_token_id=(2,),
    pad_token_id=None,
  )
  return dataclasses.replace(config, **changes)


def random_params(module, seed):
  """Random parameters for a module, scaled so that attention is not uniform.

  Drawn by NumPy: compiling an initialiser takes longer than most tests.
  """
  rng = np.random.default_rng(seed)

  def make(path, box):
    del path
    value = box.value
    mean, deviation = (1, 0.1) if value.ndim == 1 else (0, 0.2)
    drawn = rng.normal(mean, deviation, value.shape)
    return jnp.asarray(drawn, value.dtype)

  return gpu_shapes.parameters(module, make)


def ours(config, seed=0):
  """A random model of ours."""
  module = decoder.Decoder(config)
  return Model(
    module=module, params=random_params(module, seed), source="random"
  )


def ours_head(target, seed=1):
  """A random EAGLE head on a target of ours."""
  config = dataclasses.replace(target.config, num_hidden_layers=1)
  return _draft(target, eagle.Eagle(config), seed)


def _draft(target, module, seed, known=None):
  """A random draft that has the rest of its parameters of its target."""
  params = random_params(module, seed)
  theirs = borrowed.params(target, known, module.of_target)
  params |= {name: jnp.asarray(value) for name, value in theirs.items()}
  return Model(module=module, params=params, source="random")


def ours_dspark(target, rank=4, size=4, seed=1, **changes):
  """A random DSpark draft for a test target; a DFlash draft if the rank is 0.

  Args:
    target: The target.
    rank: Rank of the Markov head.
    size: The block size.
    seed: Seed of the weights.
    **changes: Configuration fields to replace.
  """
  config = dataclasses.replace(
    target.config,
    model_type="qwen3",
    num_hidden_layers=2,
    target_layer_ids=(-1, 0),
    block_size=size,
    mask_token_id=target.config.vocab_size - 1,
    markov_rank=rank,
    enable_confidence_head=rank > 0,
  )
  config = dataclasses.replace(config, **changes)
  draft = _draft(target, dspark.DSpark(config), seed)
  if rank:  # a token is to matter as much as its depth
    draft.params["markov"]["next"] *= 5
  return draft


def ours_eagle3(target, seed=1):
  """A random EAGLE-3 head on a target of ours: it knows 30 of its tokens."""
  config = dataclasses.replace(
    target.config,
    num_hidden_layers=1,
    tie_word_embeddings=False,
    target_layer_ids=(decoder.INPUT, 0),
    draft_vocab_size=30,
    shares_embedding=True,
  )
  order = np.random.default_rng(seed).permutation(config.vocab_size)
  return _draft(target, eagle3.Eagle3(config), seed, np.sort(order[:30]))


@functools.cache
def pair(kind="independent"):
  """Random models to decode with; "self" drafts for itself, "none" does not."""
  target = ours(tiny())
  if kind == "self":
    return Pair(target=target, draft=target)
  if kind == "none":
    return Pair(target=target, draft=None)
  if kind == "dflash":
    draft = ours_dspark(target, rank=0)
    return Pair(target=target, draft=draft)
  makers = {"eagle": ours_head, "eagle3": ours_eagle3, "dspark": ours_dspark}
  if kind in makers:
    draft = makers[kind](target)
  else:
    draft = ours(tiny(num_hidden_layers=1), seed=1)
  return Pair(target=target, draft=draft)
