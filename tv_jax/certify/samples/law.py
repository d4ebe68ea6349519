"""The exact law of the first tokens by our own model, and samples of others."""

from __future__ import annotations

import itertools
import math
import pathlib
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from tv_jax import models, probs
from tv_jax.edge import checks, reading
from tv_jax.models import Model

# Of all sequences after all prompts, those that can be enumerated; and those
# after a prompt that are, unless it is said otherwise.
MOST, USUAL = 1 << 17, 256
_ROWS = 4096  # of one pass of the model


class Asked(NamedTuple):
  """What samples are to be of: a target, whose law they should have."""

  target: Model
  prompts: list[list[int]]


def read_asked(folder: pathlib.Path) -> Asked:
  """Reads the target and the prompts in a folder that --write wrote."""
  lines = reading.json_lines(folder / "prompts.jsonl")
  return Asked(
    models.load(folder / "target", "float32"),
    [raw["prompt"] for _, _, raw in lines],
  )


def usual_tokens(vocabulary: int) -> int:
  """Returns how many tokens are looked at unless it is said: at least 1."""
  return max(1, int(math.log(USUAL, vocabulary) + 1e-9))


def law(
  model: Model,
  prompts: Sequence[Sequence[int]],
  tokens: int,
  *,
  temperature: float = 1.0,
  top_p: float = 1.0,
) -> np.ndarray:
  """Returns [P, V^tokens] the chance of each sequence after each prompt."""
  V = model.config.vocab_size
  if len(prompts) * V**tokens > MOST:
    raise ValueError(
      f"--tokens={tokens}: {len(prompts)} x {V}^{tokens} sequences are too many"
      f" to know each one's chance: give {usual_tokens(V)}"
    )
  texts = [*itertools.product(range(V), repeat=tokens - 1)]
  texts = np.array(texts, np.int32).reshape(len(texts), tokens - 1)
  rows = []
  for prompt in prompts:
    for start in range(0, len(texts), _ROWS):
      part = texts[start : start + _ROWS]
      before = np.tile(np.array(prompt, np.int32), (len(part), 1))
      logits = model.logits(np.concatenate([before, part], axis=1))
      logits = logits[:, len(prompt) - 1 :]
      laws = probs.law(logits, temperature=temperature, top_p=top_p)
      laws = np.asarray(laws, np.float64)
      laws /= laws.sum(axis=-1, keepdims=True)
      chances = np.take_along_axis(laws[:, :-1], part[..., None], axis=-1)
      rows.append(chances.prod(axis=(1, 2))[:, None] * laws[:, -1])
  return np.concatenate(rows).reshape(len(prompts), -1)


def read_samples(
  path, asked: Asked, tokens: int
) -> tuple[np.ndarray, np.ndarray]:
  """Reads samples, a JSON object a line: {"prompt": 0, "tokens": [3, 1, ..]}.

  Returns:
    Prompts and sequences, by number, in order.

  Raises:
    ValueError: The first line that is wrong; none is left out, as those that
      are left would have another law.
  """
  V = asked.target.config.vocab_size
  line = checks.fields(
    {
      "prompt": checks.integer(0, len(asked.prompts) - 1),
      "tokens": checks.list_of(checks.integer(0, V - 1)),
    }
  )
  which, codes, echoes = [], [], 0
  for _, where, raw in reading.json_lines(path):
    sample = line(raw, where)
    new, prompt = [*sample["tokens"]], asked.prompts[sample["prompt"]]
    if len(new) < tokens:
      raise ValueError(
        f"{where} has {len(new)} tokens, not {tokens}: let the engine ignore"
        " end tokens and give more new tokens, or look at fewer by --tokens"
      )
    which.append(sample["prompt"])
    echoes += new[: len(prompt)] == prompt
    codes.append(sum(t * V**i for i, t in enumerate(reversed(new[:tokens]))))
  if not which:
    raise ValueError(f"{path} holds no samples")
  if echoes == len(which) >= 20:
    raise ValueError(
      f"{path}: all samples begin with their prompt: give new tokens alone"
    )
  return np.array(which), np.array(codes)
