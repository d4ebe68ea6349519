"""Numbers that `generate` is given, each refused by its name."""

from __future__ import annotations

import numpy as np

from tv_jax import probs
from tv_jax.edge.reading import brief

# What a key is made of.
SEEDS = 2**32


def check(
  *, max_new_tokens, batch_size, trace, seed, temperature, draft_temperature,
  top_k, top_p, logprobs,
) -> None:  # fmt: skip
  """Refuses what is no such option; see `generate`."""
  for name, value in (
    ("max_new_tokens", max_new_tokens),
    ("batch_size", batch_size),
  ):
    if not is_integer(value) or value < 1:
      raise ValueError(f"{name}={brief(value)}: give a positive integer")
  if not is_integer(trace) or trace < 0:
    raise ValueError(f"trace={brief(trace)}: give a number of cycles, or 0")
  if not is_integer(seed) or not 0 <= seed < SEEDS:
    raise ValueError(
      f"seed={brief(seed)}: give an integer from 0 to {SEEDS - 1}"
    )
  probs.check_temperature("temperature", temperature)
  if draft_temperature is not None:
    probs.check_temperature("draft_temperature", draft_temperature)
    if draft_temperature == 0:
      raise ValueError(
        f"draft_temperature={draft_temperature}: give a positive number (at 0"
        " the draft would have one token to offer)"
      )
  if not is_integer(top_k) or top_k < 0:
    raise ValueError(
      f"top_k={brief(top_k)}: give 0 (no limit) or a positive integer"
    )
  if not probs.is_number(top_p) or not 0 < top_p <= 1:
    raise ValueError(
      f"top_p={brief(top_p)}: give a number in (0, 1]; 1 is no limit"
    )
  if not isinstance(logprobs, bool | np.bool_):
    raise ValueError(f"logprobs={brief(logprobs)}: give True or False")


def ends(tokens, vocabulary: int) -> tuple[int, ...]:
  """The tokens that end an answer, all of them in the vocabulary."""
  try:
    found = tuple(tokens)
  except TypeError:
    found = (None,)
  if isinstance(tokens, str | bytes) or not all(
    is_integer(token) and 0 <= token < vocabulary for token in found
  ):
    raise ValueError(
      f"ends={brief(tokens)}: give a list of tokens, integers from 0 to"
      f" {vocabulary - 1}"
    )
  return tuple(map(int, found))


def is_integer(value) -> bool:
  """Whether it is an integer; True is one, but hardly ever meant so."""
  return isinstance(value, int | np.integer) and not isinstance(value, bool)
