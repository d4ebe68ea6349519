"""The arrays of a batch: parameters, requests, state and records.

Axes: B batch, N nodes, D depth, J width of the features that the draft reads,
P prompt length, W maximum number of new tokens, C maximum number of cycles.
"""

from __future__ import annotations

import dataclasses
import functools
from typing import Any, NamedTuple, cast

import jax
import jax.numpy as jnp
import numpy as np

from tv_jax.drafting import Committed
from tv_jax.engine.config import Static
from tv_jax.models import Cache


class Params(NamedTuple):
  """Inputs that every compiled program reads and none changes."""

  target: dict
  draft: dict | None  # None in plain decoding
  key: jax.Array  # [] made from the seed
  temperature: jax.Array  # [] float32; ignored in greedy decoding
  draft_temperature: jax.Array  # [] float32
  rule: jax.Array  # [] int32 index into `static.among`


class Request(NamedTuple):
  """B prompts to be read into batch slots."""

  # [B, P + 1] int32, padded on the right. P tokens are read; a draft may also
  # need the token that follows each of them.
  tokens: jax.Array
  length: jax.Array  # [B] int32
  limit: jax.Array  # [B] int32: maximum number of new tokens
  item: jax.Array  # [B] uint32: each row's key is folded from its item number


class Caches(NamedTuple):
  """The key-value caches of both models; no draft cache in plain decoding."""

  target: Cache
  draft: Cache | None


class Verified(NamedTuple):
  """The decisions about the trees of all rows."""

  node: jax.Array  # [B] int32 the accepted node
  token: jax.Array  # [B] int32 the bonus token
  fault: jax.Array  # [B] bool: a NaN or an invalid decision
  expected: dict[str, jax.Array]  # [B] float32 expected length by verifier


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True, kw_only=True)
class Records:
  """Results of decoding. Fields [B, C] have one column for each cycle."""

  tokens: jax.Array  # [B, W + D + 1] int32 new tokens
  kept: jax.Array  # [B] int32: number of tokens up to the end or the limit
  cycles: jax.Array  # [B] int32: number of cycles run
  gained: jax.Array  # [B, C] int32: tokens gained, before any cut
  drafted: jax.Array  # [B, C] int32: number of drafted nodes, without the root
  expected: dict[str, jax.Array]  # [B, C] float32 expected lengths by verifier
  stops: jax.Array  # [B, N] int32: cycles in which the node was accepted
  faults: jax.Array  # [B] int32: cycles with a fault


class Continuation(NamedTuple):
  """The records of a finished prompt, on the host, without padding."""

  tokens: list[int]  # new tokens, cut at an end or the limit
  gained: np.ndarray  # [cycles] tokens gained, before any cut
  drafted: np.ndarray  # [cycles] number of drafted nodes
  expected: dict[str, np.ndarray]  # [cycles] expected lengths by verifier
  stops: np.ndarray  # [N] cycles in which the node was accepted
  faults: int  # cycles with a fault


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True, kw_only=True)
class State:
  """The state of a batch between two cycles. Rows are independent.

  The target's cache holds all committed tokens but the last, which is the root
  of the next tree. A finished row keeps its length and its results.
  """

  length: jax.Array  # [B] int32: committed tokens, prompt included
  limit: jax.Array  # [B] int32: maximum number of new tokens
  keys: jax.Array  # [B]
  done: jax.Array  # [B] bool; also True for an empty slot
  committed: Committed  # what the last cycle committed
  caches: Caches
  records: Records


@functools.partial(
  jax.jit, static_argnames=("static", "rows", "new", "features")
)
def empty_state(
  static: Static, *, rows: int, new: int, features: tuple[int, str]
) -> State:
  """Creates the state of B empty slots for W new tokens, without caches.

  `features` is J and the dtype of the features that the draft reads.
  """

  def zeros(*shape, dtype=jnp.int32):
    return jnp.zeros((rows, *shape), dtype)

  D, N, (J, dtype) = static.depth, static.nodes, features
  return State(
    length=zeros(),
    limit=zeros(),
    keys=jnp.broadcast_to(jax.random.key(0), (rows,)),
    done=jnp.ones(rows, bool),
    committed=Committed(
      tokens=zeros(D + 2),
      features=zeros(D + 1, J, dtype=dtype),
      gain=zeros(),
    ),
    caches=cast(Caches, None),
    records=Records(
      tokens=zeros(new + D + 1),
      kept=zeros(),
      cycles=zeros(),
      gained=zeros(new),
      drafted=zeros(new),
      expected={
        rule.name: zeros(new, dtype=jnp.float32) for rule in static.panel
      },
      stops=zeros(N),
      faults=zeros(),
    ),
  )


def record(
  static: Static,
  state: State,
  tokens: jax.Array,  # [B, D + 1]
  gain: jax.Array,  # [B]
  drafted: jax.Array,  # [B]
  verified: Verified,
) -> tuple[Records, jax.Array]:
  """Returns the records after a cycle, and which rows are finished."""
  before, limit, active = state.records, state.limit, ~state.done
  place = jnp.arange(tokens.shape[1], dtype=jnp.int32)[None]
  ends = jnp.isin(tokens, jnp.array(static.ends, jnp.int32))
  ends &= place < gain[:, None]
  # Number of the cycle's tokens up to and including the first end token.
  upto = jnp.where(ends.any(axis=1), jnp.argmax(ends, axis=1) + 1, gain)
  kept = jnp.minimum(before.kept + upto, limit)
  done = state.done | (kept >= limit) | ends.any(axis=1)

  def append(buffer, tokens, at):
    return jax.lax.dynamic_update_slice(buffer, tokens, (at,))

  def column(buffer, values):
    # A select over all columns instead of a scatter: XLA fuses it into one
    # kernel, although rows are in different cycles.
    number = jnp.arange(buffer.shape[1], dtype=jnp.int32)[None]
    here = active[:, None] & (number == before.cycles[:, None])
    return jnp.where(here, values[:, None], buffer)

  rows = jnp.arange(len(gain), dtype=jnp.int32)
  count = active.astype(jnp.int32)
  records = Records(
    tokens=jax.vmap(append)(before.tokens, tokens, before.kept),
    kept=kept,
    cycles=before.cycles + count,
    gained=column(before.gained, gain),
    drafted=column(before.drafted, drafted),
    expected=jax.tree.map(column, before.expected, verified.expected),
    stops=before.stops.at[rows, verified.node].add(count),
    faults=before.faults + (verified.fault & active).astype(jnp.int32),
  )
  return records, done


def continuation(records: Records, row: int) -> Continuation:
  """Copies one row out of records that are already on the host."""
  cycles = int(records.cycles[row])

  def first(array) -> Any:
    return array[row, :cycles].copy()

  return Continuation(
    tokens=records.tokens[row, : records.kept[row]].tolist(),
    gained=first(records.gained),
    drafted=first(records.drafted),
    expected=jax.tree.map(first, records.expected),
    stops=np.array(records.stops[row]),
    faults=int(records.faults[row]),
  )
