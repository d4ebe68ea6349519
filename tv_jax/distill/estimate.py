"""How long a draft takes to make, from the arithmetic, before it begins."""

from __future__ import annotations

import math
import time
from collections.abc import Hashable
from typing import cast

import jax
import jax.numpy as jnp

from tv_jax.distill import drafts
from tv_jax.distill.text import Writing
from tv_jax.models import Config, decoder
from tv_jax.models import params as params_lib

# A question and an answer are about so much of the longest.
_SHARE = 0.6


def hours(
  config: Config,
  how,
  writing: Writing,
  layers: int,
  batch_size: int,
  speed: tuple[float, float],
  *,
  asks: bool = True,
  answers: bool = True,
) -> dict[str, float]:
  """Returns the least hours of each stage.

  Args:
    config: The target's.
    how: A `Training`.
    writing: What text.
    layers: Of the draft.
    batch_size: Conversations that are written together.
    speed: Products' multiplications and additions, and bytes that are read, in
      a second: see `measure`.
    asks: Whether the target writes the questions.
    answers: Whether it writes the answers.
  """
  compute, bandwidth = speed
  E, V = config.hidden_size, config.vocab_size
  module = cast(Hashable, decoder.Decoder(config))  # by Linen
  sizes = {
    path: math.prod(box.value.shape)
    for path, box in params_lib.shapes(module).items()
  }
  whole = sum(sizes.values())
  one = sum(size for path, size in sizes.items() if path[0] == "layers_0")
  target = one * config.num_hidden_layers + V * E
  draft = one * layers
  # What becomes of each token's features before any layer.
  read = 2 if how.kind == "eagle" else len(drafts.read_by(how.kind, config))
  fuse = read * E * E
  U = min(how.vocabulary or V, V)
  answer = _SHARE * writing.answer_tokens
  question = _SHARE * writing.question_tokens
  written = answers * answer + asks * question
  length = answer + 2 * question
  tokens = writing.conversations * written
  size = 4 if config.dtype == "float32" else 2
  writes = max(
    2 * tokens * target / compute,
    tokens / batch_size * whole * size / bandwidth,
  )
  reads = 2 * writing.conversations * length * target / compute
  roots = min(how.roots or answer, answer)
  rows = length  # of a step and conversation, that go through the layers
  if how.kind == "dspark":
    rows = roots * how.depth
  elif how.kind != "independent":
    rows += roots * (how.depth - 1)
  passes = 6 * (draft * rows + fuse * length)
  # p once; q and its slope at each level, and what the token before adds.
  laws = (
    2 * U * (E * answer + how.depth * roots * (2 * E + 3 * (how.rank or 0)))
  )
  trains = how.steps * how.rows * (passes + laws) / compute
  seconds = {"text": writes, "reading": reads, "training": trains}
  return {name: value / 3600 for name, value in seconds.items()}


def measure(config: Config) -> tuple[float, float]:
  """Returns how fast this machine multiplies matrices, and reads memory."""
  E = config.hidden_size
  dtype = jnp.dtype(config.dtype)
  left, right = jnp.ones((1024, E), dtype), jnp.ones((E, 4 * E), dtype)
  long = jnp.ones(1 << 26, jnp.int8)
  product = jax.jit(lambda x, y: jnp.einsum("TE,EF->TF", x, y))
  total = jax.jit(lambda x: jnp.max(x))
  flops = 2 * math.prod(left.shape) * right.shape[1]
  return flops / _least(product, left, right), long.size / _least(total, long)


def _least(function, *arguments) -> float:
  """Returns the least seconds of five calls, compiled before."""
  jax.block_until_ready(function(*arguments))
  found = []
  for _ in range(5):
    begin = time.perf_counter()
    jax.block_until_ready(function(*arguments))
    found.append(time.perf_counter() - begin)
  return min(found)


def line(found: dict[str, float]) -> str:
  """Returns the estimate in words."""
  total = sum(found.values())
  unit, scale = ("hours", 1) if total >= 1 else ("minutes", 60)
  stages = ", ".join(
    f"{name} {scale * value:.2g}" for name, value in found.items()
  )
  return (
    f"at least {scale * total:.2g} {unit} on this machine as it is now"
    f" ({stages}); what is done already is not done again"
  )
