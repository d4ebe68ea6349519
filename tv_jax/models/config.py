"""What a Llama is, read from Hugging Face's config.json and written back.

Nothing has a default here that a checkpoint could contradict. An attribute
that is missing means what the format says it means: those younger than the
first Llama checkpoints (`rope_theta`, `num_key_value_heads`, `head_dim`, ...)
stand for what every model did before they existed.
"""

import dataclasses
import json
import pathlib

from tv_jax.models import rope

# Written by some library, without a say in what the model computes.
HARMLESS = frozenset(
  {
    "_name_or_path",
    "_from_model_config",
    "_attn_implementation",
    "_attn_implementation_autoset",
    "attention_dropout",
    "chunk_size_feed_forward",
    "id2label",
    "initializer_range",
    "is_encoder_decoder",
    "label2id",
    "max_sequence_length",
    "output_attentions",
    "output_hidden_states",
    "pretraining_tp",
    "problem_type",
    "return_dict",
    "task_specific_params",
    "tokenizer_class",
    "transformers_version",
    "use_cache",
  }
)

# Options that this Llama does not have: only these values are its own.
FIXED = {
  "model_type": "llama",
  "hidden_act": "silu",
  "attention_bias": False,
  "mlp_bias": False,
}
FIXED_REQUIRED = frozenset({"model_type", "hidden_act"})

REQUIRED = (
  "vocab_size",
  "hidden_size",
  "intermediate_size",
  "num_hidden_layers",
  "num_attention_heads",
  "rms_norm_eps",
  "max_position_embeddings",
)
OPTIONAL = frozenset(
  {
    "num_key_value_heads",
    "head_dim",
    "tie_word_embeddings",
    "bos_token_id",
    "eos_token_id",
    "pad_token_id",
    "torch_dtype",
    "dtype",
    "rope_theta",
    "rope_scaling",
    "rope_parameters",
  }
)

DTYPES = ("float32", "bfloat16", "float16")


@dataclasses.dataclass(frozen=True, kw_only=True)
class Config:
  """A Llama's shape and constants, under Hugging Face's own names."""

  vocab_size: int  # V
  hidden_size: int  # E
  intermediate_size: int  # F
  num_hidden_layers: int  # L
  num_attention_heads: int  # H
  num_key_value_heads: int  # G
  head_dim: int  # C
  rms_norm_eps: float
  rope_theta: float
  rope_scaling: rope.Scaling | None
  tie_word_embeddings: bool
  max_position_embeddings: int
  dtype: str  # of the weights
  bos_token_id: int | None
  eos_token_id: tuple[int, ...]
  pad_token_id: int | None

  @property
  def heads_per_group(self) -> int:
    """R = H / G: query heads that share one key and value head."""
    return self.num_attention_heads // self.num_key_value_heads


def from_dict(raw: dict, where: str) -> Config:
  """Reads the contents of a config.json.

  Args:
    raw: The parsed file.
    where: What errors call it.

  Returns:
    The configuration.

  Raises:
    ValueError: All that is missing, unknown or unsupported, by name.
  """
  faults = [
    f"{name}={raw.get(name)!r} is not supported, only {value!r}"
    for name, value in FIXED.items()
    if (name in raw or name in FIXED_REQUIRED) and raw.get(name) != value
  ]
  architectures = raw.get("architectures") or ["LlamaForCausalLM"]
  if architectures != ["LlamaForCausalLM"]:
    faults.append(f"architectures={architectures} is not a causal Llama")
  faults += [
    f"unknown attribute {name}={raw[name]!r}: remove it from the file if it "
    "changes nothing that the model computes"
    for name in sorted(
      set(raw)
      - HARMLESS
      - set(FIXED)
      - set(REQUIRED)
      - OPTIONAL
      - {"architectures"}
    )
  ]
  faults += [f"{name} is missing" for name in REQUIRED if raw.get(name) is None]
  theta, scaling = rope.from_dict(raw, faults)
  dtype = raw.get("dtype") or raw.get("torch_dtype") or "float32"
  if dtype not in DTYPES:
    faults.append(f"dtype={dtype!r} is not one of {', '.join(DTYPES)}")
  if faults:
    raise ValueError(f"{where}: " + "; ".join(faults))

  heads = raw["num_attention_heads"]
  groups = raw.get("num_key_value_heads") or heads
  channels = raw.get("head_dim") or raw["hidden_size"] // heads
  if heads % groups or channels % 2:
    raise ValueError(
      f"{where}: num_attention_heads={heads} must be a multiple of "
      f"num_key_value_heads={groups}, and head_dim={channels} even"
    )
  ends = raw.get("eos_token_id")
  return Config(
    **{name: raw[name] for name in REQUIRED},
    num_key_value_heads=groups,
    head_dim=channels,
    rope_theta=theta,
    rope_scaling=scaling,
    tie_word_embeddings=bool(raw.get("tie_word_embeddings", False)),
    dtype=dtype,
    bos_token_id=raw.get("bos_token_id"),
    eos_token_id=tuple(
      ends if isinstance(ends, list) else [] if ends is None else [ends]
    ),
    pad_token_id=raw.get("pad_token_id"),
  )


def to_dict(config: Config) -> dict:
  """The contents of a config.json, in the spelling that all versions read."""
  raw = dataclasses.asdict(config)
  raw["rope_scaling"] = rope.to_dict(config.rope_scaling)
  ends = config.eos_token_id
  raw["eos_token_id"] = list(ends) if len(ends) > 1 else next(iter(ends), None)
  raw["torch_dtype"] = raw.pop("dtype")
  return raw | FIXED | {"architectures": ["LlamaForCausalLM"]}


def read_json(path: pathlib.Path) -> dict:
  """A JSON file's contents, or one clear line."""
  try:
    return json.loads(path.read_text())
  except FileNotFoundError:
    raise ValueError(f"{path} does not exist: is it a checkpoint?") from None
  except json.JSONDecodeError as error:
    raise ValueError(f"{path} is not JSON: {error}") from None
