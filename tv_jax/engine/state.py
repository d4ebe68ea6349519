"""The arrays of a batch: what programs take, and what they carry.

Axes: B batch, D depth, J what the draft reads of a token, P prompt length,
W new tokens at most.
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable
from typing import NamedTuple, cast

import jax
import jax.numpy as jnp

from tv_jax.drafting import Committed
from tv_jax.engine.config import DecodeConfig
from tv_jax.engine.records import Records, empty_records
from tv_jax.models import Cache


class Params(NamedTuple):
  """What all programs take and none changes."""

  target: dict
  draft: dict | None  # None in plain decoding
  key: jax.Array  # [] of the seed
  temperature: jax.Array  # [] float32; not read if decoding is greedy
  draft_temperature: jax.Array  # [] float32
  rule: jax.Array | None  # [] int32, an index of `config.rules`; None: the only


class Request(NamedTuple):
  """Prompts to be read into slots. B is how many there are."""

  tokens: jax.Array  # [B, P + 1] int32, padded on the right
  length: jax.Array  # [B] int32
  limit: jax.Array  # [B] int32: new tokens at most
  item: jax.Array  # [B] uint32: a row's key is folded from it


class Caches(NamedTuple):
  """The caches of both models; the draft's is None in plain decoding."""

  target: Cache
  draft: Cache | None

  def map(self, function: Callable[[Cache], Cache]) -> Caches:
    """Applies a function to each cache."""
    return Caches(function(self.target), self.draft and function(self.draft))


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True, kw_only=True)
class State:
  """Between two cycles; rows know nothing of each other.

  With `length` tokens committed, the target's cache holds all but the last,
  which is the root of the next tree. Nothing of a finished row changes.
  """

  length: jax.Array  # [B] int32, the prompt included
  limit: jax.Array  # [B] int32: new tokens at most
  keys: jax.Array  # [B]
  done: jax.Array  # [B] bool; so is a slot that no prompt was read into
  committed: Committed  # what the draft has yet to read
  caches: Caches
  records: Records


@functools.partial(
  jax.jit, static_argnames=("config", "rows", "new", "features")
)
def empty_state(
  config: DecodeConfig, *, rows: int, new: int, features: tuple[int, str]
) -> State:
  """Makes the state of slots that no prompt is in, without caches.

  Args:
    config: How to decode.
    rows: B.
    new: W.
    features: J and the dtype of what the draft reads of a token.
  """
  none, D = jnp.zeros(rows, jnp.int32), config.depth
  J, dtype = features
  return State(
    length=none,
    limit=none,
    keys=jnp.broadcast_to(jax.random.key(0), (rows,)),
    done=jnp.ones(rows, bool),
    committed=Committed(
      tokens=jnp.zeros((rows, D + 2), jnp.int32),
      features=jnp.zeros((rows, D + 1, J), dtype),
      gain=none,
    ),
    caches=cast(Caches, None),
    records=empty_records(config, rows, new),
  )
