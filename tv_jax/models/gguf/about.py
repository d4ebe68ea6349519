"""Makes a config.json of a GGUF file's metadata."""

import math

import numpy as np

from tv_jax.edge.reading import brief, listed, shown
from tv_jax.models import rope
from tv_jax.models.gguf import header, tensors
from tv_jax.models.gguf.header import Header

# What a pair of channels' frequency is divided by.
FACTORS = "rope_freqs.weight"

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
  "split.count": (0, 1),
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
_PIECES = (
  "{} is one of {} pieces of a model: join them first (llama.cpp's"
  " `llama-gguf-split --merge`)"
)


def first(own: Header, *names: str):
  """Returns the first of these metadata that is there, of its architecture."""
  kind = own.metadata.get("general.architecture")
  found = (own.metadata.get(f"{kind}.{name}") for name in names)
  return next((value for value in found if value is not None), None)


def config(path) -> dict:
  """Returns what a config.json would hold.

  Args:
    path: The file.

  Returns:
    Attributes that `families.from_dict` checks.

  Raises:
    ValueError: In one line, what is missing, unknown or unsupported.
  """
  own = header.read(path)
  kind = own.metadata.get("general.architecture")
  if not isinstance(kind, str) or kind not in ARCHITECTURES:
    raise ValueError(
      f"{shown(path)}: general.architecture={brief(kind)} is not supported,"
      f" only {', '.join(map(repr, ARCHITECTURES))}"
    )
  if own.metadata.get("split.count") not in (None, *_ONLY["split.count"]):
    raise ValueError(
      _PIECES.format(shown(path), brief(own.metadata["split.count"]))
    )
  faults = [*_foreign(own, kind)]
  raw = dict(ARCHITECTURES[kind])
  for name, theirs in (_REQUIRED | _OPTIONAL).items():
    value = own.metadata.get(f"{kind}.{name}")
    if value is not None:
      raw[theirs] = _number(value)
    elif f"{kind}.{name}" in own.lists:
      faults.append(
        f"{kind}.{name} is a list: layers that differ are not known"
      )
    elif name in _REQUIRED:
      faults.append(f"{kind}.{name} is missing")
  if (tokens := own.lists.get(TOKENS)) is not None:
    raw.setdefault("vocab_size", len(tokens))
  raw["rope_scaling"] = _scaling(own, raw, faults)
  raw["tie_word_embeddings"] = "output.weight" not in own.tensors
  raw["torch_dtype"] = _dtype(own)
  raw["eos_token_id"] = ends(own)
  for name, theirs in (("bos", "bos"), ("padding", "pad")):
    value = own.metadata.get(f"tokenizer.ggml.{name}_token_id")
    raw[f"{theirs}_token_id"] = value
  _channels(own, raw, faults)
  if faults:
    raise ValueError(f"{shown(path)}: {listed(faults, '; ')}")
  return {name: value for name, value in raw.items() if value is not None}


def ends(own: Header) -> list:
  """Returns the tokens that end an answer."""
  found = (own.metadata.get(name) for name in ENDS)
  return list(dict.fromkeys(token for token in found if token is not None))


def _foreign(own: Header, kind: str):
  """Yields a line for each thing that other models have."""
  only = _ONLY | {f"{kind}.{name}": value for name, value in _ONLY_OWN.items()}
  for name, values in only.items():
    value = own.metadata.get(name)
    if value is not None and value not in values:
      allowed = " or ".join(map(repr, values))
      yield f"{name}={brief(value)} is not supported, only {allowed}"
  known = {*_ONLY_OWN, *_REQUIRED, *_OPTIONAL, *_KNOWN}
  known = {f"{kind}.{name}" for name in known}
  for name, value in (*own.metadata.items(), *own.lists.items()):
    if name.startswith(f"{kind}.") and name not in known:
      yield f"unknown: {shown(name)}={brief(value)}"


def _number(value):
  """Returns a float32 as the decimal number that was rounded to it."""
  if isinstance(value, float) and math.isfinite(value):
    return float(str(np.float32(value)))
  return value


def _dtype(own: Header) -> str:
  """Returns what the weights are stored as; float16 if they are quantised."""
  import gguf

  types = gguf.GGMLQuantizationType
  kinds = {one.kind for one in own.tensors.values() if len(one.shape) > 1}
  whole = {types.F32.value: "float32", types.BF16.value: "bfloat16"}
  return (
    whole.get(next(iter(kinds)), "float16") if len(kinds) == 1 else "float16"
  )


def _channels(own: Header, raw: dict, faults: list[str]) -> None:
  """Refuses heads whose channels are not all rotated, or not all alike."""
  heads, width = raw.get("num_attention_heads"), raw.get("hidden_size")
  channels = raw.get("head_dim")
  if channels is None and isinstance(heads, int) and isinstance(width, int):
    channels = width // max(heads, 1)
  for name in ("rope.dimension_count", "attention.value_length"):
    value = first(own, name)
    if value is not None and value != channels:
      faults.append(
        f"{name}={brief(value)} is not supported, only {brief(channels)}: the"
        " channels of a query's head"
      )


def _scaling(own: Header, raw: dict, faults: list[str]) -> dict | None:
  """Returns a config.json's `rope_scaling`."""
  if FACTORS in own.tensors:
    return _llama3(own, raw, faults)
  factor = first(own, "rope.scaling.factor", "rope.scale_linear")
  kind = first(own, "rope.scaling.type")
  if kind == "linear" or (kind is None and factor is not None):
    return {"rope_type": "linear", "factor": _number(factor)}
  return None


def _llama3(own: Header, raw: dict, faults: list[str]) -> dict | None:
  """Returns the scaling of Llama 3.1 and 3.2, if the factors are theirs."""
  channels = first(own, "rope.dimension_count")
  theta = raw.get("rope_theta")
  tensor = own.tensors[FACTORS]
  if (
    type(channels) is int
    and type(theta) is float
    and tensor.shape == (channels // 2,)
    and tensors.fault(own, tensor) is None
  ):
    factors = tensors.read(own, tensor)
    scaling = rope.Llama3Scaling(
      factor=float(factors.max()),
      low_freq_factor=1.0,
      high_freq_factor=4.0,
      original_max_position_embeddings=8192,
    )
    with np.errstate(all="ignore"):  # theta may be anything
      plain, scaled = (
        rope.frequencies(theta, channels, one) for one in (None, scaling)
      )
      same = np.allclose(plain / scaled, factors, rtol=1e-5, atol=0)
    if same:
      return rope.to_dict(scaling)
  faults.append(
    f"the factors in {FACTORS} are not those of Llama 3.1 or 3.2, which are"
    " the only ones that are supported"
  )
  return None
