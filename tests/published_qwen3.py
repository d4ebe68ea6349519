"""Qwen3-8B and DeepSpec's drafts for it, laid out as published; see published.

Shapes are small and weights random.
"""

import json

import numpy as np

from tests import published

THINKING = """{%- if enable_thinking is defined and enable_thinking is false %}
    {{- '<think>\\n\\n</think>\\n\\n' }}
{%- endif %}"""


def qwen3_8b(directory, texts, **changes):
  """As Qwen/Qwen3-8B, but for its tokenizer, which is Llama 3's."""
  directory.mkdir()
  numbers = published._llama3_tokenizer(directory, texts, THINKING)
  changes = {"max_position_embeddings": 40960} | changes
  raw = published._config(
    architectures=["Qwen3ForCausalLM"],
    attention_bias=False,
    attention_dropout=0.0,
    bos_token_id=numbers["<|begin_of_text|>"],
    eos_token_id=numbers["<|eot_id|>"],
    head_dim=8,
    initializer_range=0.02,
    max_window_layers=8,
    model_type="qwen3",
    num_hidden_layers=8,
    num_key_value_heads=1,
    rms_norm_eps=1e-6,
    rope_scaling=None,
    rope_theta=1000000,
    sliding_window=None,
    torch_dtype="bfloat16",
    transformers_version="4.51.0",
    use_cache=True,
    use_sliding_window=False,
    vocab_size=len(numbers),
    **changes,
  )
  published._write(
    directory, raw, published._llama(raw) | _head_norms(raw, "model."), shards=5
  )


def dspark_qwen3(directory, target, **changes):
  """As deepseek-ai/dspark_qwen3_8b_block7, or the DFlash draft beside it."""
  directory.mkdir()
  raw = json.loads((target / "config.json").read_text())
  del raw["max_window_layers"]
  raw |= {
    "architectures": ["Qwen3DSparkModel"],
    "block_size": 7,
    "confidence_head_with_markov": True,
    "enable_confidence_head": True,
    "layer_types": ["full_attention"] * 5,
    "markov_head_type": "vanilla",
    "markov_rank": 4,
    "mask_token_id": raw["vocab_size"] - 1,
    "num_anchors": 512,
    "num_hidden_layers": 5,
    "num_target_layers": raw["num_hidden_layers"],
    "target_layer_ids": [1, 2, 3, 5, 6],
  } | changes
  V, E, M = raw["vocab_size"], raw["hidden_size"], raw["markov_rank"]
  tensors = published._llama(raw) | _head_norms(raw, "model.")
  tensors = {name.removeprefix("model."): x for name, x in tensors.items()}
  tensors["fc.weight"] = published._random(E, 5 * E)
  tensors["hidden_norm.weight"] = np.ones(E, np.float32)
  if M:
    for name in ("markov_w1", "markov_w2"):
      tensors[f"markov_head.{name}.weight"] = published._random(V, M)
  if raw["enable_confidence_head"]:
    tensors["confidence_head.proj.weight"] = published._random(1, E + M)
    tensors["confidence_head.proj.bias"] = published._random(1)
  published._write(directory, raw, tensors)


def eagle3_qwen3(directory, target):
  """As deepseek-ai/eagle3_qwen3_8b_ttt7."""
  directory.mkdir()
  raw = json.loads((target / "config.json").read_text())
  del raw["max_window_layers"]
  raw |= {
    "architectures": ["Qwen3Eagle3Model"],
    "draft_num_hidden_layers": 1,
    "layer_types": ["full_attention"],
    "num_hidden_layers": 1,
    "num_target_layers": raw["num_hidden_layers"],
    "target_layer_ids": [1, 3, 5],
    "ttt_length": 7,
  }
  E = raw["hidden_size"]
  tensors = published._llama(raw) | _head_norms(raw, "model.")
  tensors = {name.removeprefix("model."): x for name, x in tensors.items()}
  for x in "qkv":
    name = f"layers.0.self_attn.{x}_proj.weight"
    tensors[name] = published._random(len(tensors[name]), 2 * E)
  tensors["layers.0.hidden_norm.weight"] = np.ones(E, np.float32)
  tensors["fc.weight"] = published._random(E, 3 * E)
  published._write(directory, raw, tensors)


def _head_norms(raw, prefix) -> dict:
  """Those of queries and keys, by their published names."""
  return {
    f"{prefix}layers.{i}.self_attn.{x}_norm.weight": np.ones(
      raw["head_dim"], np.float32
    )
    for i in range(raw["num_hidden_layers"])
    for x in "qk"
  }
