"""Makes the contents of a config.json from a GGUF file's metadata."""

import math
from typing import Any

import numpy as np

from tv_jax.io.reading import brief, listed
from tv_jax.models import rope
from tv_jax.models.families import FAMILIES
from tv_jax.models.gguf.reader import FACTORS, File, dequantised

# Names of an architecture's metadata in config.json.
_NAMES = {
  "block_count": "num_hidden_layers",
  "context_length": "max_position_embeddings",
  "embedding_length": "hidden_size",
  "feed_forward_length": "intermediate_size",
  "attention.head_count": "num_attention_heads",
  "attention.head_count_kv": "num_key_value_heads",
  "attention.key_length": "head_dim",
  "attention.layer_norm_rms_epsilon": "rms_norm_eps",
  "rope.freq_base": "rope_theta",
  "vocab_size": "vocab_size",
}
# Metadata with the only supported values; other models have others.
_FIXED = {
  "expert_count": (0,),
  "expert_used_count": (0,),
  "attention.causal": (True,),
  "use_parallel_residual": (False,),
  "tensor_data_layout": ("Meta AI original pth",),
  "rope.scaling.attn_factor": (1.0,),
  "rope.scaling.type": ("none", "linear"),
}
# Metadata that is read below or does not change the model's output.
_OTHERS = {
  "attention.value_length",
  "rope.dimension_count",
  "rope.scale_linear",
  "rope.scaling.factor",
  "rope.scaling.finetuned",
  "rope.scaling.original_context_length",
}


def read_config(file: File) -> dict:
  """Returns the contents of a config.json that is equivalent to a file.

  Raises:
    ValueError: If metadata is unknown or unsupported; one line lists it.
  """
  metadata = file.metadata
  kind = metadata.get("general.architecture")
  if kind not in FAMILIES:
    raise file.error(
      f"general.architecture={brief(kind)} is not supported, only"
      f" {', '.join(map(repr, FAMILIES))}"
    )
  if metadata.get("split.count", 0) > 1:
    raise file.error(
      "one of several pieces of a model: join them first (llama.cpp's"
      " `llama-gguf-split --merge`)"
    )

  def special(name):
    return metadata.get(f"tokenizer.ggml.{name}_token_id")

  # Tokens that end an answer: end of text, of turn and of message.
  ends = (special(name) for name in ("eos", "eot", "eom"))
  raw = {
    "model_type": kind,
    **FAMILIES[kind].fixed,
    "vocab_size": len(metadata.get("tokenizer.ggml.tokens", ())) or None,
    "tie_word_embeddings": "output.weight" not in file.tensors,
    "torch_dtype": _dtype(file),
    "eos_token_id": [x for x in dict.fromkeys(ends) if x is not None],
    "bos_token_id": special("bos"),
    "pad_token_id": special("padding"),
  }
  for name, theirs in _NAMES.items():
    if (value := file.first(name)) is not None:
      raw[theirs] = _number(value)
  if faults := [*_foreign(file, kind, raw)]:
    raise file.error(listed(faults, "; "))
  raw["rope_scaling"] = _scaling(file, raw)
  return {name: value for name, value in raw.items() if value is not None}


def _foreign(file: File, kind: str, raw: dict):
  """Yields a line for each unknown or unsupported entry."""
  only = {f"{kind}.{name}": values for name, values in _FIXED.items()}
  only |= {"general.type": ("model",), "general.quantization_version": (2,)}
  known = {f"{kind}.{name}" for name in (*_NAMES, *_FIXED, *_OTHERS)}
  for name, value in file.metadata.items():
    if name in only and value not in only[name]:
      allowed = " or ".join(map(repr, only[name]))
      yield f"{name}={brief(value)} is not supported, only {allowed}"
    elif name.startswith(f"{kind}.") and name not in known:
      yield f"unknown: {name}={brief(value)}"
  heads, width = raw.get("num_attention_heads"), raw.get("hidden_size")
  channels = raw.get("head_dim") or (heads and width and width // heads)
  rotated = file.first("rope.dimension_count")
  if rotated not in (None, channels):
    yield f"rope.dimension_count={rotated} is not supported, only {channels}"


def _number(value):
  """Returns the shortest decimal number that rounds to a float32."""
  if isinstance(value, float) and math.isfinite(value):
    return float(str(np.float32(value)))
  return value


def _dtype(file: File) -> str:
  """Returns the dtype of the weights; float16 if they are quantised."""
  kinds = {x.kind.name for x in file.tensors.values() if len(x.shape) > 1}
  whole = {"F32": "float32", "BF16": "bfloat16"}
  return whole.get(kinds.pop(), "float16") if len(kinds) == 1 else "float16"


def _scaling(file: File, raw: dict) -> dict | None:
  """Returns `rope_scaling` for config.json."""
  if FACTORS in file.tensors:
    return _llama3(file, raw)
  factor = file.first("rope.scaling.factor", "rope.scale_linear")
  kind = file.first("rope.scaling.type")
  if kind == "linear" or (kind is None and factor is not None):
    return {"rope_type": "linear", "factor": _number(factor)}
  return None


def _llama3(file: File, raw: dict) -> dict | None:
  """Returns the scaling of Llama 3.1 and 3.2, if the factors match it."""
  channels: Any = file.first("rope.dimension_count")
  factors = dequantised(file, file.tensors[FACTORS], 0, channels // 2)
  scaling = rope.Llama3Scaling(
    factor=float(factors.max()),
    low_freq_factor=1.0,
    high_freq_factor=4.0,
    original_max_position_embeddings=8192,
  )
  plain, scaled = (
    rope.frequencies(raw["rope_theta"], channels, x) for x in (None, scaling)
  )
  if not np.allclose(plain / scaled, factors, rtol=1e-5, atol=0):
    raise file.error(
      f"the factors in {FACTORS} are not those of Llama 3.1 or 3.2, which are"
      " the only ones that are supported"
    )
  return rope.to_dict(scaling)
