"""What a cycle adds to the records: one column, and the tokens that are kept.

Axes: B batch, D depth.
"""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING

import jax
import jax.numpy as jnp

from tv_jax.engine.plan import Plan, Records, Request, State

if TYPE_CHECKING:
  from tv_jax.engine.stages import Verdicts


def logprobs(
  logits: jax.Array, path: jax.Array, tokens: jax.Array
) -> jax.Array:
  """Returns [B, D + 1] log-probabilities of the tokens after a path's nodes.

  Whatever the temperature, and whatever tokens are left out.
  """
  logits = jnp.take_along_axis(logits, path[..., None], axis=1)
  laws = jax.nn.log_softmax(logits.astype(jnp.float32), axis=-1)
  return jnp.take_along_axis(laws, tokens[:, 1:, None], axis=-1)[..., 0]


def stopping(request: Request, state: State, tokens: jax.Array) -> jax.Array:
  """Returns [B, D + 1] how far a stop text is after each token."""
  table = request.stop
  assert table is not None

  def follow(so_far, token):
    so_far = table[so_far, token].astype(jnp.int32)
    return so_far, so_far

  return jax.lax.scan(follow, state.stopping, tokens.T)[1].T


def last(stopping: jax.Array, gain: jax.Array, before: jax.Array) -> jax.Array:
  """Returns [B] how far a stop text is after so many gained tokens."""
  place = jnp.maximum(gain - 1, 0)[:, None]
  after = jnp.take_along_axis(stopping, place, axis=1)[:, 0]
  return jnp.where(gain > 0, after, before)


def record(
  plan: Plan,
  request: Request,
  state: State,
  tokens: jax.Array,  # [B, D + 1]
  gain: jax.Array,  # [B]
  drafted: jax.Array,  # [B]
  verdicts: Verdicts,
  ending: jax.Array | None,  # [B, D + 1]
  logprobs: jax.Array | None,  # [B, D + 1]
) -> tuple[Records, jax.Array]:
  """Returns the records after the cycle, and which rows are finished."""
  before, active = state.records, ~state.done
  place = jnp.arange(tokens.shape[1], dtype=jnp.int32)[None]
  ends = jnp.isin(tokens, jnp.array(plan.ends, jnp.int32))
  if ending is not None:
    ends |= ending < 0
  ends &= place < gain[:, None]
  # Up to and with the first end; the limit may come first.
  upto = jnp.where(ends.any(axis=1), jnp.argmax(ends, axis=1) + 1, gain)
  kept = jnp.minimum(before.kept + upto, request.limit)
  done = state.done | (kept >= request.limit)
  done |= (upto <= kept - before.kept) & ends.any(axis=1)

  def put(buffer, tokens, at):
    return jax.lax.dynamic_update_slice(buffer, tokens, (at,))

  def column(buffer, values):
    # To choose everywhere is one kernel with what is chosen for, and rows may
    # be in different cycles. There is no place for those beyond the traced.
    cycle = jnp.arange(buffer.shape[1], dtype=jnp.int32)[None]
    here = active[:, None] & (cycle == before.cycles[:, None])
    here = here.reshape(*here.shape, *[1] * (values.ndim - 1))
    return jnp.where(here, values[:, None], buffer)

  rows = jnp.arange(len(gain), dtype=jnp.int32)
  one = active.astype(jnp.int32)
  records = dataclasses.replace(
    before,
    tokens=jax.vmap(put)(before.tokens, tokens, before.kept),
    kept=kept,
    cycles=before.cycles + one,
    accepted=column(before.accepted, gain),
    drafted=column(before.drafted, drafted),
    expected=jax.tree.map(column, before.expected, verdicts.expected),
    stops=before.stops.at[rows, verdicts.node].add(one),
    faults=before.faults + (verdicts.fault & active).astype(jnp.int32),
    logprobs=logprobs
    if logprobs is None
    else jax.vmap(put)(before.logprobs, logprobs, before.kept),
    trace=jax.tree.map(column, before.trace, verdicts.trace),
  )
  return records, done
