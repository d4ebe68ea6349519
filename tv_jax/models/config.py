"""What a model is, read from Hugging Face's config.json and written back.

Nothing has a default here that a checkpoint could contradict. An attribute
that is missing means what the format says it means: those younger than the
first Llama checkpoints (`rope_theta`, `num_key_value_heads`, `head_dim`, ...)
stand for what every model did before they existed.
"""

import dataclasses

from tv_jax.edge.reading import brief
from tv_jax.models import fields, rope
from tv_jax.models.family import Family

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

# Those that are counts, but for the layers, of which no model has many.
COUNTS = (
  "vocab_size",
  "hidden_size",
  "intermediate_size",
  "num_attention_heads",
  "num_key_value_heads",
  "head_dim",
  "max_position_embeddings",
)
MOST_LAYERS = 1000

DTYPES = ("float32", "bfloat16", "float16")
INT8 = "int8"  # of products' weights alone: see quantised.py


@dataclasses.dataclass(frozen=True, kw_only=True)
class Config:
  """A model's shape and constants, under Hugging Face's own names."""

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
  dtype: str  # of the weights, or if they are quantised of all else
  bos_token_id: int | None
  eos_token_id: tuple[int, ...]
  pad_token_id: int | None
  # The one field that no shape or constant depends on: who makes a model of
  # their own makes a Llama.
  model_type: str = "llama"
  # Whether products' weights have eight bits: no checkpoint's have.
  quantised: bool = False

  @property
  def heads_per_group(self) -> int:
    """R = H / G: query heads that share one key and value head."""
    return self.num_attention_heads // self.num_key_value_heads

  @property
  def kept(self) -> str:
    """What the weights are kept in, in a word."""
    return INT8 if self.quantised else self.dtype


def from_dict(raw: dict, where: str, family: Family) -> Config:
  """Reads the contents of a config.json.

  Args:
    raw: The parsed file.
    where: What errors call it.
    family: The one that its `model_type` names.

  Returns:
    The configuration.

  Raises:
    ValueError: All that is missing, unknown or unsupported, by name.
  """
  faults = [*_foreign(raw, family)]
  required = (*REQUIRED, *family.required)
  faults += [f"{name} is missing" for name in required if raw.get(name) is None]
  values = {name: fields.count(raw, name, faults) for name in COUNTS}
  layers = fields.count(raw, "num_hidden_layers", faults, MOST_LAYERS)
  epsilon = fields.number(raw, "rms_norm_eps", faults)
  theta, scaling = rope.from_dict(raw, faults)
  tied = fields.flag(raw, "tie_word_embeddings", faults, False)
  vocabulary = values["vocab_size"]
  begin = fields.token(raw, "bos_token_id", faults, vocabulary)
  ends = fields.tokens(raw, "eos_token_id", faults, vocabulary)
  # Some of the first checkpoints have -1 here, for none.
  padding = raw.get("pad_token_id")
  if padding != -1:
    padding = fields.token(raw, "pad_token_id", faults, vocabulary)
  dtypes = [raw.get("dtype"), raw.get("torch_dtype"), "float32"]
  dtype = next(dtype for dtype in dtypes if dtype is not None)
  if dtype not in DTYPES:
    faults.append(f"dtype={brief(dtype)} is not one of {', '.join(DTYPES)}")
  family.check(raw, faults)
  if not faults:
    faults += _heads(values)
  if faults:
    raise ValueError(f"{where}: " + "; ".join(faults))
  return Config(
    **values,
    num_hidden_layers=layers,
    rms_norm_eps=epsilon,
    rope_theta=theta,
    rope_scaling=scaling,
    tie_word_embeddings=tied,
    dtype=dtype,
    bos_token_id=begin,
    eos_token_id=ends,
    pad_token_id=padding,
    model_type=raw["model_type"],
  )


def _foreign(raw, family):
  """What no model of the family has, or not so."""
  for name, value in family.fixed.items():
    # A switch that is missing is off.
    got = raw.get(name, False) if value is False else raw.get(name)
    if got != value or type(got) is not type(value):
      yield f"{name}={brief(got)} is not supported, only {value!r}"
  architectures = raw.get("architectures")
  if architectures not in (None, [family.architecture]):
    yield f"architectures={brief(architectures)} is not a causal {family.name}"
  known = {"model_type", "architectures", *REQUIRED, *OPTIONAL, *HARMLESS}
  known |= {*family.fixed, *family.required, *family.optional}
  for name in sorted(set(raw) - known):
    yield (
      f"unknown attribute {brief(name)[1:-1]}={brief(raw[name])}: remove it"
      " from the file if it changes nothing that the model computes"
    )


def _heads(values):
  """Fills in what follows from the number of heads; yields what does not."""
  heads, width = values["num_attention_heads"], values["hidden_size"]
  groups = values["num_key_value_heads"] = (
    values["num_key_value_heads"] or heads
  )
  if values["head_dim"] is None and width % heads:
    yield (
      f"hidden_size={width} must be a multiple of num_attention_heads={heads}"
      " where head_dim is missing"
    )
  channels = values["head_dim"] = values["head_dim"] or width // heads
  if heads % groups or channels % 2:
    yield (
      f"num_attention_heads={heads} must be a multiple of "
      f"num_key_value_heads={groups}, and head_dim={channels} even"
    )


def to_dict(config: Config, family: Family) -> dict:
  """The contents of a config.json, in the spelling that all versions read."""
  raw = dataclasses.asdict(config)
  del raw["quantised"]
  raw["rope_scaling"] = rope.to_dict(config.rope_scaling)
  ends = config.eos_token_id
  raw["eos_token_id"] = list(ends) if len(ends) > 1 else next(iter(ends), None)
  raw["torch_dtype"] = raw.pop("dtype")
  raw["model_type"] = raw.pop("model_type")
  return raw | family.fixed | {"architectures": [family.architecture]}
