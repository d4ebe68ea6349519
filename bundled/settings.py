"""What a training run is told: frozen, and checked before anything runs."""

import dataclasses

from bundled import tokens
from tv_jax.evaluate import frozen
from tv_jax.models.config import Config


@dataclasses.dataclass(frozen=True, kw_only=True)
class Data:
  """What is trained on.

  Attributes:
    vocab_size: V, of the tokenizer.
    tokenizer_conversations: What the tokenizer is trained on.
    source_bytes: How much of the standard library's sources is read.
    length: T, tokens in a row.
    source_rows: The share of rows that hold source text alone.
    prompt_weight: Of a user's token in a loss; an answer's has 1.
    source_weight: Of a token of the sources.
  """

  vocab_size: int
  tokenizer_conversations: int
  source_bytes: int
  length: int
  source_rows: float
  prompt_weight: float
  source_weight: float


@dataclasses.dataclass(frozen=True, kw_only=True)
class Shape:
  """A Llama's shape, under Hugging Face's own names."""

  hidden_size: int
  intermediate_size: int
  num_hidden_layers: int
  num_attention_heads: int
  num_key_value_heads: int


@dataclasses.dataclass(frozen=True, kw_only=True)
class Schedule:
  """How long, in which steps.

  Attributes:
    steps: How many, in the first round.
    again: How many in a second round, in which the rate rises once more within
      `warmup` steps and then falls to 0; 0: there is none.
    rows: B, in each step.
    learning_rate: Its highest value.
    warmup: Steps until it is reached.
    decay: The first round's last so many steps, in which it falls to 0.
    weight_decay: Of matrices.
  """

  steps: int
  again: int
  rows: int
  learning_rate: float
  warmup: int
  decay: int
  weight_decay: float

  @property
  def total(self) -> int:
    """Steps of both rounds."""
    return self.steps + self.again


@dataclasses.dataclass(frozen=True, kw_only=True)
class Regression:
  """The EAGLE head's loss.

  Attributes:
    feature: The weight of smooth L1 between features.
    law: The weight of the cross-entropy to the target's law.
    distance: The weight of the total variation distance to it.
    noise: Features get uniform noise of up to half of this, for at drafting
      time they are the head's own.
  """

  feature: float
  law: float
  distance: float
  noise: float


@dataclasses.dataclass(frozen=True, kw_only=True)
class Settings:
  """A whole run.

  Attributes:
    seed: Of the data, the initial weights and the noise.
    max_position_embeddings: Of all models.
    data: What is trained on.
    target: The target's shape; the EAGLE head is one layer of it.
    target_schedule: Its training.
    draft: The draft's shape.
    draft_schedule: Its training.
    draft_weak: The shape of a draft that knows less.
    draft_weak_schedule: Its training.
    eagle_schedule: The head's training.
    regression: Its loss.
    checkpoint_every: Steps.
    log_every: Steps.
  """

  seed: int
  max_position_embeddings: int
  data: Data
  target: Shape
  target_schedule: Schedule
  draft: Shape
  draft_schedule: Schedule
  draft_weak: Shape
  draft_weak_schedule: Schedule
  eagle_schedule: Schedule
  regression: Regression
  checkpoint_every: int
  log_every: int


# What may be 0; everything else must be positive.
_MAY_BE_ZERO = {
  "seed",
  "again",
  "source_bytes",
  "source_rows",
  "prompt_weight",
  "source_weight",
  "warmup",
  "decay",
  "weight_decay",
  "distance",
  "feature",
  "law",
  "noise",
}


def _numbers(group, prefix: str = "") -> list[str]:
  """What is wrong with the numbers of a dataclass and those in it."""
  faults = []
  for field in dataclasses.fields(group):
    name, value = field.name, getattr(group, field.name)
    if dataclasses.is_dataclass(value):
      faults += _numbers(value, f"{prefix}{name}.")
    elif value < 0 or (value == 0 and name not in _MAY_BE_ZERO):
      least = "0 or more" if name in _MAY_BE_ZERO else "more than 0"
      faults.append(f"{prefix}{name}={value!r} must be {least}")
  return faults


def from_config(config) -> Settings:
  """Checks a ConfigDict, all of it, and freezes it.

  Args:
    config: As a file in configs/ returns it.

  Returns:
    The settings.

  Raises:
    ValueError: All that is wrong, by name.
  """
  settings = frozen.build(Settings, config.to_dict())
  if faults := _numbers(settings):
    raise ValueError("; ".join(faults))
  for name in ("target", "draft", "draft_weak"):
    shape = getattr(settings, name)
    heads, groups = shape.num_attention_heads, shape.num_key_value_heads
    if shape.hidden_size % (2 * heads) or heads % groups:
      faults.append(
        f"{name}.num_attention_heads={heads} must divide half of "
        f"{name}.hidden_size={shape.hidden_size}, and be a multiple of "
        f"{name}.num_key_value_heads={groups}"
      )
  for name in ("target", "draft", "draft_weak", "eagle"):
    schedule = getattr(settings, f"{name}_schedule")
    if schedule.warmup + schedule.decay > schedule.steps:
      faults.append(
        f"{name}_schedule: warmup={schedule.warmup} and "
        f"decay={schedule.decay} must fit into steps={schedule.steps}"
      )
    if schedule.again and schedule.warmup >= schedule.again:
      faults.append(
        f"{name}_schedule: warmup={schedule.warmup} must be less than "
        f"again={schedule.again}"
      )
  data = settings.data
  if data.vocab_size < 300:
    faults.append(
      f"data.vocab_size={data.vocab_size} must be 300 or more: all bytes and "
      "the special tokens"
    )
  if data.source_rows > 1:
    faults.append(f"data.source_rows={data.source_rows} must be 1 or less")
  if data.length > settings.max_position_embeddings:
    faults.append(
      f"data.length={data.length} must not be more than "
      f"max_position_embeddings={settings.max_position_embeddings}"
    )
  if faults:
    raise ValueError("; ".join(faults))
  return settings


def llama_config(settings: Settings, shape: Shape) -> Config:
  """The configuration of a model of this shape."""
  return Config(
    **dataclasses.asdict(shape),
    vocab_size=settings.data.vocab_size,
    head_dim=shape.hidden_size // shape.num_attention_heads,
    rms_norm_eps=1e-5,
    rope_theta=10000.0,
    rope_scaling=None,
    tie_word_embeddings=True,
    max_position_embeddings=settings.max_position_embeddings,
    dtype="float32",
    bos_token_id=tokens.BOS,
    eos_token_id=(tokens.END,),
    pad_token_id=tokens.PAD,
  )
