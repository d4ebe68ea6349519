"""Makes a config.json of a GGUF file's metadata."""

import math

import numpy as np

from tv_jax.edge.reading import brief, listed, shown
from tv_jax.models import rope
from tv_jax.models.gguf.reader import FACTORS, File, numbers

# By general.architecture: what its config.json has besides, where all models
# of the architecture have the same.
ARCHITECTURES = {
  "llama": {
    "model_type": "llama",
    "hidden_act": "silu",
    "attention_bias": False,
    "mlp_bias": False,
  },
  "qwen2": {"model_type": "qwen2", "hidden_act": "silu", "use_mrope": False},
  "qwen3": {
    "model_type": "qwen3",
    "hidden_act": "silu",
    "attention_bias": False,
  },
}

# Behind the architecture's name in the metadata.
_REQUIRED = {
  "block_count": "num_hidden_layers",
  "context_length": "max_position_embeddings",
  "embedding_length": "hidden_size",
  "feed_forward_length": "intermediate_size",
  "attention.head_count": "num_attention_heads",
  "attention.layer_norm_rms_epsilon": "rms_norm_eps",
}
_OPTIONAL = {
  "attention.head_count_kv": "num_key_value_heads",
  "attention.key_length": "head_dim",
  "rope.freq_base": "rope_theta",
  "vocab_size": "vocab_size",
}
TOKENS = "tokenizer.ggml.tokens"
# Tokens that end an answer: of a text, of a turn, of a message.
ENDS = tuple(f"tokenizer.ggml.{x}_token_id" for x in ("eos", "eot", "eom"))

# Where the metadata say that a model is another one, and what they may say.
_ONLY = {
  "general.type": ("model",),
  "general.quantization_version": (2,),
}
_ONLY_OWN = {
  "expert_count": (0,),
  "expert_used_count": (0,),
  "attention.causal": (True,),
  "use_parallel_residual": (False,),
  "tensor_data_layout": ("Meta AI original pth",),
  "rope.scaling.attn_factor": (1.0,),
  "rope.scaling.type": ("none", "linear"),
}
# Read by other means, or nothing that changes what is computed.
_KNOWN = {
  "rope.dimension_count",
  "rope.scale_linear",
  "rope.scaling.factor",
  "rope.scaling.finetuned",
  "rope.scaling.original_context_length",
  "attention.value_length",
}


def config(file: File) -> dict:
  """Returns what a config.json would hold.

  Raises:
    ValueError: In one line, what is missing, unknown or unsupported.
  """
  kind = file.metadata.get("general.architecture")
  if not isinstance(kind, str) or kind not in ARCHITECTURES:
    raise file.error(
      f"general.architecture={brief(kind)} is not supported, only"
      f" {', '.join(map(repr, ARCHITECTURES))}"
    )
  pieces = file.metadata.get("split.count", 0)
  if pieces not in (0, 1):
    raise file.error(
      f"one of {brief(pieces)} pieces of a model: join them first (llama.cpp's"
      " `llama-gguf-split --merge`)"
    )
  faults, raw = [*_foreign(file, kind)], dict(ARCHITECTURES[kind])
  for name, theirs in (_REQUIRED | _OPTIONAL).items():
    value = file.metadata.get(f"{kind}.{name}")
    if isinstance(value, list):
      faults.append(
        f"{kind}.{name} is a list: layers that differ are not known"
      )
    elif value is not None:
      raw[theirs] = _number(value)
    elif name in _REQUIRED:
      faults.append(f"{kind}.{name} is missing")
  if tokens := file.metadata.get(TOKENS):
    raw.setdefault("vocab_size", len(tokens))
  raw["rope_scaling"] = _scaling(file, raw, faults)
  raw["tie_word_embeddings"] = "output.weight" not in file.tensors
  raw["torch_dtype"] = _dtype(file)
  raw["eos_token_id"] = ends(file)
  for name, theirs in (("bos", "bos"), ("padding", "pad")):
    value = file.metadata.get(f"tokenizer.ggml.{name}_token_id")
    raw[f"{theirs}_token_id"] = value
  _channels(file, raw, faults)
  if faults:
    raise file.error(listed(faults, "; "))
  return {name: value for name, value in raw.items() if value is not None}


def ends(file: File) -> list:
  """Returns the tokens that end an answer."""
  tokens = (file.metadata.get(name) for name in ENDS)
  return list(dict.fromkeys(token for token in tokens if token is not None))


def _foreign(file: File, kind: str):
  """Yields a line for each thing that other models have."""
  only = _ONLY | {f"{kind}.{name}": value for name, value in _ONLY_OWN.items()}
  known = {*_ONLY_OWN, *_REQUIRED, *_OPTIONAL, *_KNOWN}
  known = {f"{kind}.{name}" for name in known}
  for name, value in file.metadata.items():
    if name in only and value not in only[name]:
      allowed = " or ".join(map(repr, only[name]))
      yield f"{name}={brief(value)} is not supported, only {allowed}"
    elif name.startswith(f"{kind}.") and name not in known:
      yield f"unknown: {shown(name)}={brief(value)}"


def _number(value):
  """Returns a float32 as the decimal number that was rounded to it."""
  if isinstance(value, float) and math.isfinite(value):
    return float(str(np.float32(value)))
  return value


def _dtype(file: File) -> str:
  """Returns what the weights are stored as; float16 if they are quantised."""
  tensors = file.tensors.values()
  kinds = {x.tensor_type.name for x in tensors if len(x.shape) > 1}
  whole = {"F32": "float32", "BF16": "bfloat16"}
  return whole.get(kinds.pop(), "float16") if len(kinds) == 1 else "float16"


def _channels(file: File, raw: dict, faults: list[str]) -> None:
  """Refuses heads whose channels are not all rotated, or not all alike."""
  heads, width = raw.get("num_attention_heads"), raw.get("hidden_size")
  channels = raw.get("head_dim")
  if channels is None and isinstance(heads, int) and isinstance(width, int):
    channels = width // max(heads, 1)
  for name in ("rope.dimension_count", "attention.value_length"):
    value = file.first(name)
    if value is not None and value != channels:
      faults.append(
        f"{name}={brief(value)} is not supported, only {brief(channels)}: the"
        " channels of a query's head"
      )


def _scaling(file: File, raw: dict, faults: list[str]) -> dict | None:
  """Returns a config.json's `rope_scaling`."""
  if FACTORS in file.tensors:
    return _llama3(file, raw, faults)
  factor = file.first("rope.scaling.factor", "rope.scale_linear")
  kind = file.first("rope.scaling.type")
  if kind == "linear" or (kind is None and factor is not None):
    return {"rope_type": "linear", "factor": _number(factor)}
  return None


def _llama3(file: File, raw: dict, faults: list[str]) -> dict | None:
  """Returns the scaling of Llama 3.1 and 3.2, if the factors are theirs."""
  channels, theta = file.first("rope.dimension_count"), raw.get("rope_theta")
  factors = numbers(file.tensors[FACTORS])
  if (
    channels
    and theta
    and factors.shape == (channels // 2,)
    and factors.min() > 0
  ):
    scaling = rope.Llama3Scaling(
      factor=float(factors.max()),
      low_freq_factor=1.0,
      high_freq_factor=4.0,
      original_max_position_embeddings=8192,
    )
    plain, scaled = (
      rope.frequencies(theta, channels, x) for x in (None, scaling)
    )
    if np.allclose(plain / scaled, factors, rtol=1e-5, atol=0):
      return rope.to_dict(scaling)
  faults.append(
    f"the factors in {FACTORS} are not those of Llama 3.1 or 3.2, which are"
    " the only ones that are supported"
  )
  return None
