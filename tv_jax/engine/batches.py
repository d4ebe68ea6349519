"""Prompts to batches: checked, padded to few sizes, with keys of their own.

Axes: B batch, P prompt length, W new tokens at most, S cache slots.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from tv_jax.edge.reading import brief
from tv_jax.engine import decoding, extents, options, sizes
from tv_jax.engine.pair import Pair
from tv_jax.engine.settings import Settings
from tv_jax.models import sharding, stops, templates

# A text, messages or token ids; as a rule several of these.
Prompts = str | Sequence[str | Sequence[int] | Sequence[Mapping[str, str]]]


class Batch(NamedTuple):
  """Arguments of the engine, all of them but the caches."""

  params: decoding.Params
  request: decoding.Request
  new: int  # W
  slots: int  # S


def encode(pair: Pair, texts, template: str, limit: int) -> list[list[int]]:
  """Prompts as token ids; refuses those that cannot be decoded.

  Args:
    pair: The models.
    texts: Strings, messages or token ids; or a single string or conversation.
    template: How strings become tokens.
    limit: New tokens at most.

  Returns:
    Token ids.
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
      if template not in ("raw", "chat"):
        raise ValueError(
          f"prompt {i} is messages, which the tokenizer's own template is for,"
          f' not {brief(template)}: give template="chat", or a text'
        )
      tokens = templates.encode_messages(pair.tokenizer, text)
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
    isinstance(one, Mapping) for one in prompt
  )


def _integers(i, tokens) -> list[int]:
  try:
    found = np.asarray(tokens).tolist()
    if all(options.is_integer(token) for token in found):
      return found
  except (TypeError, ValueError):  # no list, or a ragged one
    pass
  raise ValueError(
    f"prompt {i} is {brief(tokens)}: give a string, messages, or a list of"
    " token ids"
  )


def numbers(items: Sequence[int] | None, count: int) -> list[int]:
  """The number of each of `count` prompts; by default its place."""
  if items is None:
    return [*range(count)]
  items = np.asarray(items).tolist()
  if not (
    isinstance(items, list)
    and len(items) == count
    and all(options.is_integer(item) for item in items)
    and 0 <= min(items) <= max(items) < options.SEEDS
  ):
    raise ValueError(
      f"items={brief(items)}: give {count} numbers, one a prompt, none negative"
      f" or above {options.SEEDS - 1}"
    )
  return items


def assemble(
  pair: Pair,
  settings: Settings,
  tokens: Sequence[Sequence[int]],
  items: Sequence[int],
  size: int,
  longest: int = 0,
  limits: Sequence[int] | None = None,
) -> Batch:
  """A batch of `size` rows; those beyond `tokens` are padding, as empty ones.

  Args:
    pair: The models.
    settings: How to decode.
    tokens: The prompts of the batch.
    items: The number of each, which its key is folded from.
    size: B.
    longest: The longest prompt of any batch, if there is a longer one: all
      batches of a run share one program.
    limits: New tokens of each at most, where these are fewer than
      `settings.limit`.

  Returns:
    The batch.
  """
  P = extents.prompt_slots(max(longest, *map(len, tokens)))
  new = extents.new_slots(settings.limit)
  sizes.check(pair, settings.plan, size, P, new)
  rest = size - len(tokens)
  limits = [*(limits or [settings.limit] * len(tokens)), *[0] * rest]
  length = np.array([*map(len, tokens), *[0] * rest], np.int32)
  padded = np.zeros((size, P + 1), np.int32)
  for row, own in zip(padded, tokens, strict=False):
    row[: len(own)] = own
  numbers = jnp.array([*items, *[0] * rest], jnp.uint32)
  key = jax.random.key(settings.seed)
  request = decoding.Request(
    prompts=jnp.asarray(padded),
    length=jnp.asarray(length),
    keys=jax.vmap(jax.random.fold_in, (None, 0))(key, numbers),
    limit=jnp.asarray(np.array(limits, np.int32)),
    temperature=jnp.asarray(settings.temperature or 1.0, jnp.float32),
    draft_temperature=jnp.asarray(settings.draft_temperature, jnp.float32),
    rule=None if settings.rule is None else jnp.int32(settings.rule),
    stop=_stop(pair, settings.stop),
  )
  if pair.target.mesh is not None:  # the same on every device
    whole = sharding.placement("", pair.target.mesh)
    request = sharding.put(request, whole)
  speculation = settings.plan.speculation
  tree = speculation and speculation.tree
  draft = pair.draft if tree else None
  return Batch(
    params=decoding.Params(pair.target.params, draft and draft.params),
    request=request,
    new=new,
    slots=extents.slots(extents.shape(tree), P, new, sizes.block()),
  )


def _stop(pair, stop) -> jax.Array | None:
  if not stop:
    return None
  V = pair.target.config.vocab_size
  return jnp.asarray(stops.table(pair.tokenizer, V, stop))


def caches(
  pair: Pair, batch: Batch, used: decoding.Caches | None = None
) -> decoding.Caches:
  """Caches for the batch: those that a batch before has used, if they fit."""
  B, S = len(batch.request.length), batch.slots
  drafts = batch.params.draft is not None
  if used and (
    (used.target.slots, len(used.target.length), used.draft is not None)
    == (S, B, drafts)
  ):
    return used
  draft = None
  if drafts:
    draft = pair.draft.init_cache(B, S)
    if pair.target.mesh is not None and pair.draft.mesh is None:
      draft = sharding.put(draft, sharding.placement("", pair.target.mesh))
  return decoding.Caches(pair.target.init_cache(B, S), draft)


def shapes(pair: Pair, batch: Batch) -> decoding.Caches:
  """Of a batch's caches, where the models are on a single device."""
  place = batch.request.length.sharding
  return jax.tree.map(
    lambda x: jax.ShapeDtypeStruct(x.shape, x.dtype, sharding=place),
    jax.eval_shape(lambda: caches(pair, batch)),
  )
