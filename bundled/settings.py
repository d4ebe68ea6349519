"""What the bundled models were made with: every number, in one place."""

import dataclasses

from bundled import tokens
from tv_jax.distill.training import Schedule
from tv_jax.models.config import Config


@dataclasses.dataclass(frozen=True, kw_only=True)
class Data:
  """What is trained on."""

  vocab_size: int = 4096
  tokenizer_conversations: int = 24_000  # that the tokenizer is trained on
  source_bytes: int = 4_000_000  # read from the standard library's sources
  length: int = 256  # T, tokens in a row
  source_rows: float = 0.12  # the share of rows with source text alone
  prompt_weight: float = 0.2  # of a user's token in the loss; an answer's has 1
  source_weight: float = 0.4  # of a token of the sources


@dataclasses.dataclass(frozen=True, kw_only=True)
class Shape:
  """A Llama's shape, with as many key and value heads as query heads."""

  hidden: int
  mlp: int
  layers: int
  heads: int


@dataclasses.dataclass(frozen=True, kw_only=True)
class Settings:
  """A whole run."""

  data: Data
  shapes: dict[str, Shape]
  schedules: dict[str, Schedule]


FULL = Settings(
  data=Data(),
  shapes={
    "target": Shape(hidden=256, mlp=640, layers=5, heads=4),
    "draft": Shape(hidden=64, mlp=192, layers=2, heads=2),
    "draft_weak": Shape(hidden=24, mlp=72, layers=1, heads=1),
  },
  schedules={
    "target": Schedule(steps=1000, decay=450, rows=16, again=500),
    "draft": Schedule(steps=1000, decay=700),
    "draft_weak": Schedule(steps=450, decay=300),
  },
)

# A minute, to see that everything works.
SMOKE = Settings(
  data=Data(vocab_size=600, tokenizer_conversations=300, source_bytes=100_000),
  shapes={
    "target": Shape(hidden=32, mlp=64, layers=2, heads=2),
    "draft": Shape(hidden=16, mlp=32, layers=1, heads=1),
    "draft_weak": Shape(hidden=8, mlp=16, layers=1, heads=1),
  },
  schedules=dict.fromkeys(
    FULL.schedules, Schedule(steps=20, decay=5, rate=4e-3, rows=2, warmup=5)
  ),
)


def llama_config(data: Data, shape: Shape) -> Config:
  """Returns the configuration of a model of this shape."""
  return Config(
    hidden_size=shape.hidden,
    intermediate_size=shape.mlp,
    num_hidden_layers=shape.layers,
    num_attention_heads=shape.heads,
    num_key_value_heads=shape.heads,
    vocab_size=data.vocab_size,
    head_dim=shape.hidden // shape.heads,
    rms_norm_eps=1e-5,
    rope_theta=10000.0,
    rope_scaling=None,
    tie_word_embeddings=True,
    max_position_embeddings=1024,
    dtype="float32",
    bos_token_id=tokens.BOS,
    eos_token_id=(tokens.END,),
    pad_token_id=tokens.PAD,
  )
