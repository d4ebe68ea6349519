"""A model's shape and constants, read from config.json and written to it.

An attribute that is missing or null has the format's default. For attributes
younger than the first Llama checkpoints (`rope_theta`, `num_key_value_heads`,
`head_dim`, ...) that is the value that every earlier model had.
"""

from __future__ import annotations

import dataclasses

from tv_jax.io import checks
from tv_jax.io.errors import UserError
from tv_jax.io.reading import brief
from tv_jax.models import rope
from tv_jax.models.families import FAMILIES
from tv_jax.models.layout import LANGUAGE_MODEL, Format

# Attributes that do not change the model's output.
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
    "num_anchors",
    "num_target_layers",
    "output_attentions",
    "output_hidden_states",
    "pretraining_tp",
    "problem_type",
    "return_dict",
    "step_loss_decay",
    "target_model_name_or_path",
    "task_specific_params",
    "tokenizer_class",
    "transformers_version",
    "ttt_length",
    "use_cache",
  }
)

_COUNT = checks.integer(1)
REQUIRED = {
  "vocab_size": _COUNT,
  "hidden_size": _COUNT,
  "intermediate_size": _COUNT,
  "num_hidden_layers": _COUNT,
  "num_attention_heads": _COUNT,
  "rms_norm_eps": checks.number(0),
  "max_position_embeddings": _COUNT,
}
OPTIONAL = {
  "num_key_value_heads": _COUNT,
  "head_dim": _COUNT,
  "tie_word_embeddings": checks.boolean,
  # For drafts: see borrowed.py.
  "draft_vocab_size": _COUNT,
  "shares_embedding": checks.boolean,
}
# Attributes that `_from_dict` and rope.py read.
_OTHERS = {"model_type", "architectures", "torch_dtype", "dtype"}
_OTHERS |= {"bos_token_id", "eos_token_id", "pad_token_id"}
_OTHERS |= {"rope_theta", "rope_scaling", "rope_parameters"}

DTYPES = ("float32", "bfloat16", "float16")


@dataclasses.dataclass(frozen=True, kw_only=True)
class Config:
  """A model's shape and constants, under Hugging Face's names."""

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
  # The rest is for drafts.
  draft_vocab_size: int | None = None  # U: tokens a draft knows, if not all
  shares_embedding: bool = False  # whether a draft uses its target's
  # The target's layers that the draft reads (`Decoder.outputs`). If empty, the
  # draft reads the output of the target's final norm.
  target_layer_ids: tuple[int, ...] = ()
  bias: bool = True  # whether an EAGLE-1 head's fusing layer has a bias
  # For a draft that drafts all levels in one pass: see dspark.py.
  block_size: int = 0  # K, rows of a block: the most levels of its trees
  mask_token_id: int = 0  # the token that stands for each unknown token
  markov_rank: int = 0  # M, rank of the Markov head; 0: no Markov head
  enable_confidence_head: bool = False

  @property
  def heads_per_group(self) -> int:
    """R = H / G: query heads per key and value head."""
    return self.num_attention_heads // self.num_key_value_heads


def from_dict(raw: dict, where: str, form: Format = LANGUAGE_MODEL) -> Config:
  """Reads the contents of a config.json.

  Args:
    raw: The parsed file.
    where: Name of the file in error messages.
    form: The kind of model.

  Returns:
    The configuration.

  Raises:
    ValueError: If an attribute is missing, unknown or unsupported.
  """
  try:
    return _from_dict(raw, form)
  except ValueError as error:
    raise UserError(f"{where}: {error}") from None


def _from_dict(raw: dict, form: Format) -> Config:
  kind = raw.get("model_type")
  if not isinstance(kind, str) or kind not in form.layouts:
    raise UserError(
      f"{form.title} of model_type={brief(kind)} is not supported, only"
      f" {', '.join(map(repr, form.layouts))}"
    )
  family = FAMILIES[kind]
  if faults := [*_foreign(raw, kind, form)]:
    raise UserError("; ".join(faults))
  present = {name: value for name, value in raw.items() if value is not None}
  of_family = {name: OPTIONAL[name] for name in family.required}
  values = checks.fields(
    {**REQUIRED, **of_family, **form.required}, **OPTIONAL, **form.optional
  )(present)
  theta, scaling = rope.from_dict(present)
  ends = present.get("eos_token_id", [])
  pad = present.get("pad_token_id")
  heads = values["num_attention_heads"]
  defaults = {
    "tie_word_embeddings": False,
    "num_key_value_heads": heads,
    "head_dim": values["hidden_size"] // heads,
    "dtype": present.get("dtype", present.get("torch_dtype", "float32")),
  }
  return Config(
    **defaults | values,
    bos_token_id=present.get("bos_token_id"),
    eos_token_id=checks.list_of(checks.integer(0, values["vocab_size"] - 1))(
      ends if isinstance(ends, list) else [ends], "eos_token_id"
    ),
    pad_token_id=None if pad == -1 else pad,  # in some early models
    rope_theta=theta,
    rope_scaling=scaling,
    model_type=kind,
  )


def _foreign(raw: dict, kind: str, form: Format):
  """Yields a line for each unknown or unsupported attribute."""
  family, fixed = FAMILIES[kind], {**FAMILIES[kind].fixed, **form.fixed}
  for name, value in fixed.items():
    got = raw.get(name)
    is_default = got is None and (value is False or name in form.fixed)
    if got != value and not is_default:
      yield f"{name}={brief(got)} is not supported, only {value!r}"
  types = raw.get("layer_types") or []
  if any(x != "full_attention" for x in types):
    yield f"layer_types={brief(types)} is not supported, only 'full_attention'"
  classes = form.layouts[kind].architectures or (family.architecture,)
  architectures = raw.get("architectures")
  if architectures not in (None, *([name] for name in classes)):
    wanted = " or ".join(classes)
    yield f"architectures={brief(architectures)} is not {wanted}"
  known = {*REQUIRED, *OPTIONAL, *HARMLESS, *_OTHERS, *fixed, *family.required}
  known |= {*family.optional, *form.required, *form.optional}
  for name in sorted(set(raw) - known):
    yield (
      f"unknown attribute {name}={brief(raw[name])}: remove it"
      " from the file if it changes nothing that the model computes"
    )


def to_dict(config: Config, form: Format = LANGUAGE_MODEL) -> dict:
  """Returns the contents of a config.json for any version of transformers."""
  family = FAMILIES[config.model_type]
  layout = form.layouts[config.model_type]
  written = {"model_type", *form.required, *form.optional}
  raw = {
    field.name: getattr(config, field.name)
    for field in dataclasses.fields(config)
    if field.name in written or getattr(config, field.name) != field.default
  }
  raw["rope_scaling"] = rope.to_dict(config.rope_scaling)
  ends = config.eos_token_id
  raw["eos_token_id"] = list(ends) if len(ends) > 1 else next(iter(ends), None)
  raw["torch_dtype"] = raw.pop("dtype")
  name, *_ = layout.architectures or (family.architecture,)
  return {**raw, **family.fixed, **form.fixed, "architectures": [name]}
