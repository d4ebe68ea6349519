"""Prompts as token ids, checked."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

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
  encoded = encode(pair, prompts, template, limit)
  if items is None:
    items = [*range(len(encoded))]
  items = _integers(items, SEEDS, "items")
  if len(items) != len(encoded):
    raise ValueError(
      f"items={brief(items)}: give {len(encoded)} numbers, one a prompt"
    )
  return [
    Prompt(tokens, item, limit)
    for tokens, item in zip(encoded, items, strict=True)
  ]


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
  for i, prompt in enumerate(texts):
    if isinstance(prompt, str):
      prompt = templates.encode(template, pair.tokenizer, [prompt])
    elif _is_messages(prompt):
      name = "chat" if template == "raw" else template
      prompt = templates.encode_messages(pair.tokenizer, prompt, name)
    tokens = _integers(prompt, config.vocab_size, f"prompt {i}")
    if not tokens:
      raise ValueError(
        f"prompt {i} is empty: give at least one token (a start token, such as"
        f" {config.bos_token_id})"
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


def _integers(values, below: int, where: str) -> list[int]:
  """Returns integers from 0 up to `below`, of a list or an array."""
  if hasattr(values, "tolist"):
    values = values.tolist()
  integer = checks.integer(0, below - 1)
  return [*checks.read(checks.list_of(integer), values, where)]
