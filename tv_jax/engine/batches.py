"""Prompts to batches: checked, padded to few sizes, with keys of their own.

Axes: B batch, P prompt length, W new tokens at most, S cache slots.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from tv_jax.edge import checks
from tv_jax.edge.reading import brief
from tv_jax.engine import sizes
from tv_jax.engine.pair import Pair
from tv_jax.engine.plan import Caches, Params, Request
from tv_jax.engine.settings import SEEDS, Settings
from tv_jax.models import sharding, stops, templates

# A text, messages or token ids; as a rule several of these.
Prompts = str | Sequence[str | Sequence[int] | Sequence[Mapping[str, str]]]


class Batch(NamedTuple):
  """Arguments of the engine's programs, all of them but the state."""

  params: Params
  request: Request
  new: int  # W
  slots: int  # S
  place: jax.sharding.Sharding  # of what is the same on all devices

  @property
  def width(self) -> int:
    """P + 1, what prompts are padded to."""
    return self.request.prompts.shape[1]


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
      own = "chat" if template == "raw" else template
      tokens = templates.encode_messages(pair.tokenizer, text, own)
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
    found = np.asarray(tokens, object).tolist()  # or True would be a 1
  except (TypeError, ValueError):  # no list, or a ragged one
    found = None
  if isinstance(found, list) and all(map(checks.is_integer, found)):
    return [*map(int, found)]
  raise ValueError(
    f"prompt {i} is {brief(tokens)}: give a string, messages, or a list of"
    " token ids"
  )


def numbers(items: Sequence[int] | None, count: int) -> list[int]:
  """Returns the number of each of `count` prompts; by default its place."""
  if items is None:
    return [*range(count)]
  given, items = items, np.asarray(items, object).tolist()
  if not (
    isinstance(items, list)
    and len(items) == count
    and all(checks.is_integer(item) for item in items)
    and 0 <= min(items) <= max(items) < SEEDS
  ):
    raise ValueError(
      f"items={brief(given)}: give {count} numbers, one a prompt, none negative"
      f" or above {SEEDS - 1}"
    )
  return [*map(int, items)]


def assemble(pair: Pair, settings: Settings, size: int, longest: int) -> Batch:
  """Returns a batch of rows that nothing is in yet.

  Args:
    pair: The models.
    settings: How to decode.
    size: B.
    longest: The longest prompt that there may be.

  Raises:
    ValueError: There is no memory for it.
  """
  P, new = sizes.prompt_slots(longest), sizes.new_slots(settings.limit)
  sizes.check(pair, settings.plan, size, P, new)
  how = settings.plan.speculation
  none = np.zeros(size, np.int32)
  key = jax.random.key(settings.seed)
  request = Request(
    prompts=jnp.asarray(np.zeros((size, P + 1), np.int32)),
    length=jnp.asarray(none),
    keys=jax.vmap(jax.random.fold_in, (None, 0))(key, none.astype(np.uint32)),
    limit=jnp.asarray(none),
    temperature=jnp.asarray(settings.temperature or 1.0, jnp.float32),
    draft_temperature=jnp.asarray(settings.draft_temperature, jnp.float32),
    rule=None if settings.rule is None else jnp.int32(settings.rule),
    stop=_stop(pair, settings.stop),
  )
  if pair.target.mesh is not None:  # the same on every device
    whole = sharding.placement("", pair.target.mesh)
    request = sharding.put(request, whole)
  draft = pair.draft if how else None
  return Batch(
    params=Params(pair.target.params, draft and draft.params),
    request=request,
    new=new,
    slots=sizes.slots(
      how and how.tree, P, new, how.drafter.block if how else 0
    ),
    place=request.length.sharding,
  )


def _stop(pair, stop) -> jax.Array | None:
  if not stop:
    return None
  V = pair.target.config.vocab_size
  return jnp.asarray(stops.table(pair.tokenizer, V, stop))


def caches(pair: Pair, batch: Batch, used: Caches | None = None) -> Caches:
  """Caches for the batch: those that a batch before has used, if they fit."""
  B, S = len(batch.request.length), batch.slots
  model = pair.draft if batch.params.draft is not None else None
  if used and (
    (used.target.slots, len(used.target.length), used.draft is None)
    == (S, B, model is None)
  ):
    return used
  draft = None
  if model is not None:
    draft = model.init_cache(B, S)
    if pair.target.mesh is not None and model.mesh is None:
      draft = sharding.put(draft, sharding.placement("", pair.target.mesh))
  return Caches(pair.target.init_cache(B, S), draft)
