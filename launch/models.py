"""Configurations of a run's models, from config.json or as published."""

from __future__ import annotations

import dataclasses
import os

from tv_jax import drafting, models
from tv_jax.edge import reading
from tv_jax.edge.reading import brief
from tv_jax.models import storage
from tv_jax.models.config import INT8, Block, Config
from tv_jax.runs import settings


def _llama(V, E, F, L, H, G, dtype, tied=False) -> Config:
  """Returns a Llama's sizes; its constants change no size, and are made up."""
  return Config(
    vocab_size=V,
    hidden_size=E,
    intermediate_size=F,
    num_hidden_layers=L,
    num_attention_heads=H,
    num_key_value_heads=G,
    head_dim=E // H,
    tie_word_embeddings=tied,
    dtype=dtype,
    rms_norm_eps=1e-5,
    rope_theta=1e4,
    rope_scaling=None,
    max_position_embeddings=2048,
    bos_token_id=None,
    eos_token_id=(),
    pad_token_id=None,
  )


_LLAMA3_8B = _llama(128256, 4096, 14336, 32, 32, 8, "bfloat16")
_QWEN3_8B = dataclasses.replace(
  _llama(151936, 4096, 12288, 36, 32, 8, "bfloat16"), model_type="qwen3"
)
# DeepSpec's drafts read five of its layers.
_FOR_QWEN3_8B = dataclasses.replace(
  _QWEN3_8B, num_hidden_layers=5, target_layers=(1, 9, 17, 25, 33)
)
_DSPARK = Block(
  size=7, mask=0, rank=256, head="vanilla", confidence=True, sees_token=True
)
_DFLASH = Block(
  size=7, mask=0, rank=0, head=None, confidence=False, sees_token=False
)

# Each repository that configs/ names, from its own config.json
# (huggingface.co/NAME/blob/main/config.json). Tests count the parameters.
PUBLISHED = {
  "meta-llama/Llama-3.1-8B-Instruct": _LLAMA3_8B,
  "meta-llama/Llama-3.2-1B-Instruct": _llama(
    128256, 2048, 8192, 16, 32, 8, "bfloat16", tied=True
  ),
  "meta-llama/Llama-2-7b-hf": _llama(32000, 4096, 11008, 32, 32, 32, "float16"),
  "JackFram/llama-68m": _llama(32000, 768, 3072, 2, 12, 12, "float32"),
  "lmsys/vicuna-7b-v1.3": _llama(32000, 4096, 11008, 32, 32, 32, "float16"),
  "yuhuili/EAGLE-Vicuna-7B-v1.3": _llama(
    32000, 4096, 11008, 1, 32, 32, "float16"
  ),
  "yuhuili/EAGLE3-LLaMA3.1-Instruct-8B": dataclasses.replace(
    _LLAMA3_8B,
    num_hidden_layers=1,
    target_layers=(1, 15, 28),
    draft_vocab_size=32000,
    shares_embedding=True,
  ),
  "Qwen/Qwen3-8B": _QWEN3_8B,
  "deepseek-ai/dspark_qwen3_8b_block7": dataclasses.replace(
    _FOR_QWEN3_8B, block=_DSPARK
  ),
  "deepseek-ai/dflash_qwen3_8b_block7": dataclasses.replace(
    _FOR_QWEN3_8B, block=_DFLASH
  ),
  "deepseek-ai/eagle3_qwen3_8b_ttt7": dataclasses.replace(
    _FOR_QWEN3_8B, num_hidden_layers=1
  ),
}


def pair(own: settings.Models) -> tuple[Config, Config]:
  """Returns the target's and the draft's configuration, as a GPU loads them.

  Raises:
    ValueError: A model is in no folder here and not among `PUBLISHED`, or its
      config.json is wrong.
  """
  way = drafting.KINDS[own.draft_kind]
  stored = _config(own.target, models.read_config)
  target = _as_loaded(stored, own.dtype)
  draft = _config(own.draft, lambda place: way.read_config(place, target, None))
  if way.follows_target:
    same = {"dtype": target.dtype, "quantised": target.quantised}
    return target, dataclasses.replace(draft, **same)
  return target, _as_loaded(draft, own.dtype)


def _as_loaded(config: Config, dtype: str) -> Config:
  if dtype == INT8:
    return dataclasses.replace(config, quantised=True)
  return dataclasses.replace(config, dtype=dtype or config.dtype)


def _config(name: str, read) -> Config:
  place = os.path.expanduser(reading.place_of(name))
  if storage.is_local(place):
    return read(place)
  if name not in PUBLISHED:
    raise ValueError(
      f"the shape of {brief(name)} is not known: it is no folder here, and none"
      " of the models that configs/ names"
    )
  return PUBLISHED[name]
