"""Prompts as token ids, checked."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from tv_jax.edge import checks
from tv_jax.edge.reading import brief
from tv_jax.engine.config import SEEDS, DecodeConfig
from tv_jax.engine.decode import Prompt
from tv_jax.engine.pair import Pair
from tv_jax.models import templates

# A text, messages or token ids; as a rule several of these.
Prompts = str | Sequence[str | Sequence[int] | Sequence[Mapping[str, str]]]


def read_prompts(
  pair: Pair,
  config: DecodeConfig,
  prompts: Prompts,
  *,
  template: str = "raw",
  items: Sequence[int] | None = None,
) -> list[Prompt]:
  """Returns prompts as tokens, with their numbers; see `generate`."""
  limit = config.max_new_tokens
  tokens = encode(pair, prompts, template, limit)
  numbers = _numbers(items, len(tokens))
  return [Prompt(*pair, limit) for pair in zip(tokens, numbers, strict=True)]


def encode(pair: Pair, texts, template: str, limit: int) -> list[list[int]]:
  """Returns prompts as token ids; refuses those that cannot be decoded.

  Args:
    pair: The models.
    texts: Strings, messages or token ids; or a single string or conversation.
    template: How strings become tokens.
    limit: New tokens at most.
  """
  if isinstance(texts, str) or _is_messages(texts):
    texts = [texts]
  if isinstance(texts, bytes | Mapping) or not hasattr(texts, "__iter__"):
    raise ValueError(
      f"prompts: give a text, messages, or a list, not {brief(texts)}"
    )
  config = pair.target.config
  encoded = []
  for i, text in enumerate(texts):
    if isinstance(text, str):
      tokens = templates.encode(template, pair.tokenizer, [text])
    elif _is_messages(text):
      name = "chat" if template == "raw" else template
      tokens = templates.encode_messages(pair.tokenizer, text, name)
    else:
      tokens = _integers(i, text)
    if not tokens:
      raise ValueError(
        f"prompt {i} is empty: give at least one token (a start token, such as"
        f" {config.bos_token_id})"
      )
    outside = [t for t in tokens if not 0 <= t < config.vocab_size]
    if outside:
      raise ValueError(
        f"prompt {i} holds token {brief(outside[0])}: the vocabulary is 0 to"
        f" {config.vocab_size - 1}"
      )
    if len(tokens) + limit > config.max_position_embeddings:
      raise ValueError(
        f"prompt {i} of {len(tokens)} tokens and max_new_tokens={limit} do not"
        f" fit in the model's {config.max_position_embeddings} positions:"
        " shorten one or the other"
      )
    encoded.append(tokens)
  if not encoded:
    raise ValueError("there are no prompts")
  return encoded


def _is_messages(prompt) -> bool:
  return isinstance(prompt, list | tuple) and any(
    isinstance(message, Mapping) for message in prompt
  )


def _integers(i, tokens) -> list[int]:
  try:
    numbers = np.asarray(tokens, object).tolist()  # or True would be a 1
  except (TypeError, ValueError):  # no list, or a ragged one
    numbers = None
  if isinstance(numbers, list) and all(map(checks.is_integer, numbers)):
    return [*map(int, numbers)]
  raise ValueError(
    f"prompt {i} is {brief(tokens)}: give a string, messages, or a list of"
    " token ids"
  )


def _numbers(items: Sequence[int] | None, count: int) -> list[int]:
  """Returns the number of each of `count` prompts; by default its place."""
  if items is None:
    return [*range(count)]
  numbers = np.asarray(items, object).tolist()
  if not (
    isinstance(numbers, list)
    and len(numbers) == count
    and all(checks.is_integer(item) for item in numbers)
    and 0 <= min(numbers) <= max(numbers) < SEEDS
  ):
    raise ValueError(
      f"items={brief(items)}: give {count} numbers, one a prompt, none negative"
      f" or above {SEEDS - 1}"
    )
  return [*map(int, numbers)]
