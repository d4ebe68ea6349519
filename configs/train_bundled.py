"""Trains the bundled models and their tokenizer from nothing.

  python -m bundled --config=configs/train_bundled.py

writes runs/train_bundled/bundled/{target,draft,draft_weak,eagle} and
minibench.jsonl, as they are in tv_jax/assets/bundled. Expected at the end, as
the mean of the last five lines of each log: 0.82 nats per token of an answer
(target), 1.14 (draft) and 2.05 (draft_weak), and the share of the head's tokens
that is accepted 0.92.

  python -m bundled --config=configs/train_bundled.py:smoke

is the same in a minute, with tiny models.
"""

import ml_collections

ConfigDict = ml_collections.ConfigDict


def get_config(arg: str = "") -> ConfigDict:
  """The run whose results are bundled, or with arg `smoke` a tiny one."""
  if arg not in ("", "smoke"):
    raise ValueError(f"config argument {arg!r} is not smoke")
  config = ConfigDict()
  config.seed = 0
  config.max_position_embeddings = 1024
  config.checkpoint_every = 100
  config.log_every = 10

  config.data = ConfigDict()
  config.data.vocab_size = 4096
  config.data.tokenizer_conversations = 24_000
  config.data.source_bytes = 4_000_000
  config.data.length = 256
  config.data.prompt_weight = 0.2
  config.data.source_rows = 0.12
  config.data.source_weight = 0.4

  config.target = shape(hidden=256, mlp=640, layers=5, heads=4)
  config.target_schedule = schedule(steps=1000, rate=6e-3, decay=450, again=500)
  config.draft = shape(hidden=64, mlp=192, layers=2, heads=2)
  config.draft_schedule = schedule(steps=1000, rate=6e-3, decay=700, rows=8)
  config.draft_weak = shape(hidden=24, mlp=72, layers=1, heads=1)
  config.draft_weak_schedule = schedule(steps=450, rate=6e-3, decay=300, rows=8)
  config.eagle_schedule = schedule(steps=500, rate=4e-3, decay=350, rows=8)
  config.regression = ConfigDict(
    {"feature": 1.0, "law": 1.0, "distance": 1.0, "noise": 0.2}
  )
  if arg == "smoke":
    config.checkpoint_every = 10
    config.log_every = 5
    config.data.vocab_size = 600
    config.data.tokenizer_conversations = 300
    config.data.source_bytes = 100_000
    config.target = shape(hidden=32, mlp=64, layers=2, heads=2)
    config.draft = shape(hidden=16, mlp=32, layers=1, heads=1)
    config.draft_weak = shape(hidden=8, mlp=16, layers=1, heads=1)
    for name in ("target", "draft", "draft_weak", "eagle"):
      small = schedule(steps=20, rate=4e-3, decay=5, rows=2, warmup=5)
      config[f"{name}_schedule"] = small
  return config


def shape(hidden: int, mlp: int, layers: int, heads: int) -> ConfigDict:
  """A Llama's shape."""
  return ConfigDict(
    {
      "hidden_size": hidden,
      "intermediate_size": mlp,
      "num_hidden_layers": layers,
      "num_attention_heads": heads,
      "num_key_value_heads": heads,
    }
  )


def schedule(
  steps: int,
  rate: float,
  decay: int,
  rows: int = 16,
  warmup: int = 50,
  again: int = 0,
) -> ConfigDict:
  """Steps of one stage."""
  return ConfigDict(
    {
      "steps": steps,
      "again": again,
      "rows": rows,
      "learning_rate": rate,
      "warmup": warmup,
      "decay": decay,
      "weight_decay": 0.1,
    }
  )
