"""All settings that made the bundled models."""

import dataclasses

import optax

from training import tokens
from tv_jax.distill import training
from tv_jax.models.config import Config

LENGTH = 256  # T, tokens in a training row
SOURCE_ROWS = 0.12  # share of rows that hold only source text
PROMPT_WEIGHT = 0.2  # loss weight of a user's token; an answer's has 1
SOURCE_WEIGHT = 0.4  # loss weight of a token of source text
CONTEXT = 1024  # the most tokens that a model can process


@dataclasses.dataclass(frozen=True, kw_only=True)
class Schedule:
  """The length and learning rate of a training stage."""

  steps: int  # number of steps in the first round
  decay: int  # number of its last steps, in which the rate falls to 0
  rate: float = 6e-3  # the highest learning rate
  rows: int = 8  # B, rows per step
  warmup: int = 50  # number of steps until the highest rate
  again: int = 0  # number of steps in a second round: warm-up, then decay

  def learning_rate(self) -> optax.Schedule:
    """Returns the learning rate of each step."""
    first = training.schedule(self.steps, self.decay, self.rate, self.warmup)
    if not self.again:
      return first
    rest = self.again - self.warmup
    second = training.schedule(self.again, rest, self.rate, self.warmup)
    return optax.join_schedules([first, second], [self.steps])


@dataclasses.dataclass(frozen=True, kw_only=True)
class Settings:
  """The settings of a whole run."""

  vocab_size: int = 4096
  conversations: int = 24_000  # that the tokenizer is trained on
  source_bytes: int = 4_000_000  # read from the standard library's sources
  # Hidden size, MLP size, layers and heads (equal for queries and keys).
  shapes: dict[str, tuple[int, int, int, int]]
  schedules: dict[str, Schedule]


FULL = Settings(
  shapes={
    "target": (256, 640, 5, 4),
    "draft": (64, 192, 2, 2),
    "draft_weak": (24, 72, 1, 1),
  },
  schedules={
    "target": Schedule(steps=1000, decay=450, rows=16, again=500),
    "draft": Schedule(steps=1000, decay=700),
    "draft_weak": Schedule(steps=450, decay=300),
  },
)

# A run of a minute, to check that everything works.
SMOKE = Settings(
  vocab_size=600,
  conversations=300,
  source_bytes=100_000,
  shapes={
    "target": (32, 64, 2, 2),
    "draft": (16, 32, 1, 1),
    "draft_weak": (8, 16, 1, 1),
  },
  schedules=dict.fromkeys(
    FULL.schedules, Schedule(steps=20, decay=5, rate=4e-3, rows=2, warmup=5)
  ),
)


def config(settings: Settings, name: str) -> Config:
  """Returns the configuration of the model of this name."""
  hidden, mlp, layers, heads = settings.shapes[name]
  return Config(
    hidden_size=hidden,
    intermediate_size=mlp,
    num_hidden_layers=layers,
    num_attention_heads=heads,
    num_key_value_heads=heads,
    vocab_size=settings.vocab_size,
    head_dim=hidden // heads,
    rms_norm_eps=1e-5,
    rope_theta=10000.0,
    rope_scaling=None,
    tie_word_embeddings=True,
    max_position_embeddings=CONTEXT,
    dtype="float32",
    bos_token_id=tokens.BOS,
    eos_token_id=(tokens.END,),
    pad_token_id=tokens.PAD,
  )
