"""A model's shape and constants, read from and written as config.json.

No constant has a default of our own. An attribute that is missing, or null, has
the format's default. Attributes younger than the first Llama checkpoints
(`rope_theta`, `num_key_value_heads`, `head_dim`, ...) then have the value that
every model had before.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping

from tv_jax.edge import checks
from tv_jax.edge.reading import brief
from tv_jax.models import rope
from tv_jax.models.families import FAMILIES

# Attributes that do not change what the model computes.
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

_COUNT = checks.integer(1, checks.MOST)
REQUIRED = {
  "vocab_size": _COUNT,
  "hidden_size": _COUNT,
  "intermediate_size": _COUNT,
  "num_hidden_layers": checks.integer(1, 1000),  # no model has more
  "num_attention_heads": _COUNT,
  "rms_norm_eps": rope.POSITIVE,
  "max_position_embeddings": _COUNT,
}
OPTIONAL = {
  "num_key_value_heads": _COUNT,
  "head_dim": _COUNT,
  "tie_word_embeddings": checks.boolean,
  # Of drafts alone: see borrowed.py.
  "draft_vocab_size": _COUNT,
  "shares_embedding": checks.boolean,
}
# Read by other means than a check.
_OTHERS = {"bos_token_id", "eos_token_id", "pad_token_id", "torch_dtype"}
_OTHERS |= {"dtype", "rope_theta", "rope_scaling", "rope_parameters"}

DTYPES = ("float32", "bfloat16", "float16")


@dataclasses.dataclass(frozen=True, kw_only=True)
class Block:
  """Of a draft that drafts all levels in one pass: see dspark.py."""

  size: int  # K: its rows, and how many levels it can draft
  mask: int  # the token that stands for those to come
  rank: int  # M, of its Markov head; 0: it has none
  head: str | None  # the kind of that
  confidence: bool  # whether it says how sure it is of each level
  sees_token: bool  # whether it looks at the token before for that


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
  dtype: str
  bos_token_id: int | None
  eos_token_id: tuple[int, ...]
  pad_token_id: int | None
  model_type: str = "llama"
  draft_vocab_size: int | None = None  # U: tokens that a draft knows, if few
  shares_embedding: bool = False  # whether a draft uses its target's
  # Of a draft: the target's layers whose outputs it reads side by side, as of
  # `Decoder.outputs`; none: it reads what comes out of the final norm.
  target_layers: tuple[int, ...] = ()
  norm_before_residual: bool = False  # of an EAGLE-3 head: see eagle3.py
  block: Block | None = None

  @property
  def heads_per_group(self) -> int:
    """R = H / G: query heads that share one key and value head."""
    return self.num_attention_heads // self.num_key_value_heads


@dataclasses.dataclass(frozen=True, kw_only=True, eq=False)
class DraftFormat:
  """What config.json says of a kind of draft beside what its family's says.

  Attributes:
    name: What errors call it.
    architectures: Classes that the file may name in place of the family's.
    attributes: Those that may be there, and what each must be.
    required: Those that must be there.
    fields: From those that are to the fields of `Config` that follow.
  """

  name: str
  architectures: tuple[str, ...]
  attributes: Mapping[str, checks.Check]
  fields: Callable[[dict], dict]
  required: Mapping[str, checks.Check] = dataclasses.field(default_factory=dict)


def from_dict(
  raw: dict, where: str, draft: DraftFormat | None = None
) -> Config:
  """Reads the contents of a config.json.

  Args:
    raw: The parsed file.
    where: What errors call it.
    draft: What more there may be in a draft's.

  Returns:
    The configuration.

  Raises:
    ValueError: All that is missing, unknown or unsupported, by name.
  """
  kind = raw.get("model_type")
  if not isinstance(kind, str) or kind not in FAMILIES:
    raise ValueError(
      f"{where}: model_type={brief(kind)} is not supported, only"
      f" {', '.join(map(repr, FAMILIES))}"
    )
  family = FAMILIES[kind]
  faults = [*_foreign(raw, family, draft)]
  family.check(raw, faults)
  given = {name: value for name, value in raw.items() if value is not None}
  required = [name for name in family.required if name not in given]
  faults += [f"{name} is missing" for name in required]
  values = checks.fields(REQUIRED, **OPTIONAL)(given, "", faults)
  if draft:
    own = checks.fields(draft.required, **draft.attributes)(given, "", faults)
    values |= draft.fields(own)
  values["rope_theta"], values["rope_scaling"] = rope.from_dict(given, faults)
  vocabulary = values.get("vocab_size") or checks.MOST
  token = checks.integer(0, vocabulary - 1)
  ends = given.get("eos_token_id", [])
  ends = ends if isinstance(ends, list) else [ends]
  values["eos_token_id"] = checks.list_of(token)(ends, "eos_token_id", faults)
  for name in ("bos_token_id", "pad_token_id"):
    own = given.get(name)
    # Some of the first checkpoints have -1 here, for none.
    padding = name == "pad_token_id" and own == -1
    check = checks.anything if padding else checks.optional(token)
    values[name] = check(own, name, faults)
  dtype = given.get("dtype", given.get("torch_dtype", "float32"))
  if dtype not in DTYPES:
    faults.append(f"dtype={brief(dtype)} is not one of {', '.join(DTYPES)}")
  if not faults:
    faults += _heads(values)
  if faults:
    raise ValueError(f"{where}: " + "; ".join(faults))
  values.setdefault("tie_word_embeddings", False)
  return Config(**values, dtype=dtype, model_type=kind)


def _foreign(raw, family, draft):
  """Yields a line for each attribute that no model of the family has."""
  classes = [family.architecture, *(draft.architectures if draft else ())]
  for name, value in family.fixed.items():
    # A switch that is missing is off.
    got = raw.get(name, False) if value is False else raw.get(name)
    if got != value or type(got) is not type(value):
      yield f"{name}={brief(got)} is not supported, only {value!r}"
  architectures = raw.get("architectures")
  if architectures not in (None, *([name] for name in classes)):
    what = draft.name if draft else f"a causal {family.name}"
    yield f"architectures={brief(architectures)} is not {what}"
  known = {"model_type", "architectures", *REQUIRED, *OPTIONAL, *HARMLESS}
  known |= {*_OTHERS, *family.fixed, *family.required, *family.optional}
  known |= {*draft.attributes, *draft.required} if draft else set()
  for name in sorted(set(raw) - known):
    yield (
      f"unknown attribute {brief(name)[1:-1]}={brief(raw[name])}: remove it"
      " from the file if it changes nothing that the model computes"
    )


def _heads(values):
  """Adds the sizes that follow from the number of heads; yields faults."""
  heads, width = values["num_attention_heads"], values["hidden_size"]
  groups = values.setdefault("num_key_value_heads", heads)
  if "head_dim" not in values and width % heads:
    yield (
      f"hidden_size={width} must be a multiple of num_attention_heads={heads}"
      " where head_dim is missing"
    )
  channels = values.setdefault("head_dim", width // heads)
  if heads % groups or channels % 2:
    yield (
      f"num_attention_heads={heads} must be a multiple of "
      f"num_key_value_heads={groups}, and head_dim={channels} even"
    )


def to_dict(config: Config) -> dict:
  """Returns a config.json's contents, in a spelling that all versions read."""
  family, raw = FAMILIES[config.model_type], dataclasses.asdict(config)
  for name in ("target_layers", "norm_before_residual", "block"):
    del raw[name]
  for name in ("draft_vocab_size", "shares_embedding"):
    if not raw[name]:
      del raw[name]
  raw["rope_scaling"] = rope.to_dict(config.rope_scaling)
  ends = config.eos_token_id
  raw["eos_token_id"] = list(ends) if len(ends) > 1 else next(iter(ends), None)
  raw["torch_dtype"] = raw.pop("dtype")
  raw["model_type"] = raw.pop("model_type")
  return raw | dict(family.fixed) | {"architectures": [family.architecture]}
