"""Reads prompts up to their last tokens, into slots of a batch.

Axes: B prompts, D depth, T query length, P prompt length, J what the draft
reads of a token.
"""

import dataclasses

import jax
import jax.numpy as jnp

from tv_jax.drafting import Committed
from tv_jax.engine.config import DecodeConfig
from tv_jax.engine.records import empty_records
from tv_jax.engine.state import Caches, Params, Request, State
from tv_jax.models import mask

# A prompt is read in pieces of at most so many tokens. On a CPU four pieces of
# 64 take little longer than one of 256, and a short prompt needs only one.
CHUNK, _CPU_CHUNK = 256, 64


def insert(
  config: DecodeConfig,
  params: Params,
  request: Request,
  slot: jax.Array,
  state: State,
) -> State:
  """Reads prompts into slots, whatever was there; no other row changes.

  Args:
    config: How to decode.
    params: Both models' parameters.
    request: The prompts.
    slot: [] the slot of the first; the others take those after it.
    state: The batch, between two cycles.
  """
  rows = len(request.length)
  # Nothing of what was there stays: a mask does not hide a NaN.
  caches = jax.tree.map(lambda x: jnp.zeros_like(x[:rows]), state.caches)
  new = state.records.accepted.shape[1]
  read = prefill(config, params, request, caches, new)
  return jax.tree.map(
    lambda batch, x: jax.lax.dynamic_update_slice_in_dim(batch, x, slot, 0),
    state,
    read,
  )


def prefill(
  config: DecodeConfig,
  params: Params,
  request: Request,
  caches: Caches,  # empty
  new: int,  # W
) -> State:
  """Reads prompts[:-1]; returns the state before the first cycle."""
  length, P = request.length, request.tokens.shape[1] - 1
  size = min(P, CHUNK)
  if jax.default_backend() == "cpu":
    size = min(size, _CPU_CHUNK)
  if P % size:
    raise ValueError(f"prompts are padded to {P}: no multiple of {size}")

  def read(at, carry):
    return _read(config, params, request, size, at, carry)

  shapes = jax.eval_shape(lambda: read(0, (caches, None)))
  feature = jnp.zeros(shapes[1].shape, shapes[1].dtype)
  if size == P:
    caches, feature = read(jnp.int32(0), (caches, feature))
  else:
    # Beyond the longest prompt's last token but one there is nothing to read.
    pieces = -(-(jnp.max(length) - 1) // size)
    caches, feature = jax.lax.fori_loop(
      0, pieces, lambda i, carry: read(i * size, carry), (caches, feature)
    )
  draft = caches.draft
  if config.drafter and draft:
    draft = dataclasses.replace(draft, length=config.drafter.prefilled(length))
  before_root = jnp.maximum(length - 1, 0)
  return State(
    length=length,
    limit=request.limit,
    keys=jax.vmap(jax.random.fold_in, (None, 0))(params.key, request.item),
    done=(length == 0) | (request.limit <= 0),
    committed=_last_two(config, request, feature),
    caches=Caches(
      dataclasses.replace(caches.target, length=before_root), draft
    ),
    records=empty_records(config, len(length), new),
  )


def _read(config, params, request, size, at, carry):
  """Reads tokens `at` to `at + size`; keeps the feature before the root's."""
  caches, feature = carry
  tokens, following = (
    jax.lax.dynamic_slice_in_dim(request.tokens, at + shift, size, axis=1)
    for shift in (0, 1)
  )
  begin = caches.target.length
  _, features, target = config.target.apply(
    {"params": params.target},
    tokens,
    begin[:, None] + jnp.arange(size, dtype=jnp.int32)[None],
    mask.causal(begin, size, caches.target.slots),
    caches.target,
  )
  draft = caches.draft
  if config.drafter:
    draft = config.drafter.prefill(
      params.draft, tokens, following, features, draft
    )
  place = request.length - 2 - at
  inside = ((place >= 0) & (place < size))[:, None, None]
  place = jnp.clip(place, 0, size - 1)[:, None, None]
  here = jnp.take_along_axis(features, place, axis=1)
  if feature is None:
    feature = jnp.zeros_like(here)
  return Caches(target, draft), jnp.where(inside, here, feature)


def _last_two(config, request, feature) -> Committed:
  """Returns the last two tokens of each prompt; a single one is both."""
  last = request.length[:, None] - jnp.array([[2, 1]], jnp.int32)
  tokens = jnp.take_along_axis(request.tokens, jnp.maximum(last, 0), axis=1)
  D = config.depth
  return Committed(
    tokens=jnp.pad(tokens, ((0, 0), (0, D))),
    features=jnp.pad(feature, ((0, 0), (0, D), (0, 0))),
    gain=jnp.ones_like(request.length),
  )
