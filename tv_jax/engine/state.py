"""The arrays of a batch: what programs take, carry, and leave behind.

Axes: B batch, N nodes, D depth, J what the draft reads of a token, P prompt
length, W new tokens at most, C cycles at most.
"""

from __future__ import annotations

import dataclasses
import functools
from typing import NamedTuple, cast

import jax
import jax.numpy as jnp

from tv_jax.drafting import Committed
from tv_jax.engine.config import DecodeConfig
from tv_jax.models import Cache
from tv_jax.proposals import INVALID
from tv_jax.tree import Adaptive, Tree
from tv_jax.verifiers import family


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


class Judged(NamedTuple):
  """What a rule says of a drafted tree."""

  stop: jax.Array  # [N] its stop law
  node: jax.Array  # [] int32 what it accepts with the tree's coins
  accept: jax.Array  # [N] `Decision.accept`


class Trace(NamedTuple):
  """One drafted tree. What is said of a node's token is 0 at the root."""

  tokens: jax.Array  # [N] int32, the root's among them; INVALID: none drawn
  p: jax.Array  # [N] the target's law of a node's token
  q: jax.Array  # [N] the draft's base law of it
  drawn: jax.Array  # [N] the law it was drawn from, siblings considered
  coins: jax.Array  # [N] what the rule compared with its thresholds
  node: jax.Array  # [] int32 the accepted node
  accept: jax.Array  # [N] these thresholds: `Decision.accept`
  panel: dict[str, Judged]  # by verifier
  parent: jax.Array | None  # [N] int32; None where the tree is static


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True, kw_only=True)
class Records:
  """What decoding leaves behind, one column a cycle."""

  tokens: jax.Array  # [B, W + D + 1] int32, the prompt not included
  kept: jax.Array  # [B] int32: how many of them, cut at an end or the limit
  cycles: jax.Array  # [B] int32: how many were run
  accepted: jax.Array  # [B, C] int32: tokens gained in each, before any cut
  drafted: jax.Array  # [B, C] int32: nodes that were drafted, without the root
  expected: dict[str, jax.Array]  # [B, C] float32 by verifier of the panel
  stops: jax.Array  # [B, N] int32: how often each node was the accepted one
  faults: jax.Array  # [B] int32: cycles in which a NaN was met
  trace: Trace | None  # [B, cycles traced, ..]


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

  def zeros(*shape, dtype=jnp.int32):
    return jnp.zeros((rows, *shape), dtype)

  D, N, (J, dtype), trace = config.depth, config.nodes, features, None
  if config.trace:
    law = zeros(config.trace, N, dtype=jnp.float32)
    tokens, node = zeros(config.trace, N), zeros(config.trace)
    trace = Trace(
      tokens=tokens,
      p=law,
      q=law,
      drawn=law,
      coins=law,
      node=node,
      accept=law,
      panel={rule.name: Judged(law, node, law) for rule in config.panel},
      parent=tokens if isinstance(config.tree, Adaptive) else None,
    )
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
      accepted=zeros(new),
      drafted=zeros(new),
      expected={
        rule.name: zeros(new, dtype=jnp.float32) for rule in config.panel
      },
      stops=zeros(N),
      faults=zeros(),
      trace=trace,
    ),
  )


def record(
  config: DecodeConfig,
  state: State,
  tokens: jax.Array,  # [B, D + 1]
  gain: jax.Array,  # [B]
  drafted: jax.Array,  # [B]
  verdicts,
) -> tuple[Records, jax.Array]:
  """Returns the records after the cycle, and which rows are finished."""
  before, limit, active = state.records, state.limit, ~state.done
  place = jnp.arange(tokens.shape[1], dtype=jnp.int32)[None]
  ends = jnp.isin(tokens, jnp.array(config.ends, jnp.int32))
  ends &= place < gain[:, None]
  # Up to and with the first end; the limit may come first.
  upto = jnp.where(ends.any(axis=1), jnp.argmax(ends, axis=1) + 1, gain)
  kept = jnp.minimum(before.kept + upto, limit)
  done = state.done | (kept >= limit)
  done |= (upto <= kept - before.kept) & ends.any(axis=1)

  def append(buffer, tokens, at):
    return jax.lax.dynamic_update_slice(buffer, tokens, (at,))

  def column(buffer, values):
    # To choose everywhere is one kernel with what is chosen for, and rows may
    # be in different cycles. There is no place for those beyond the traced.
    number = jnp.arange(buffer.shape[1], dtype=jnp.int32)[None]
    here = active[:, None] & (number == before.cycles[:, None])
    here = here.reshape(*here.shape, *[1] * (values.ndim - 1))
    return jnp.where(here, values[:, None], buffer)

  rows = jnp.arange(len(gain), dtype=jnp.int32)
  count = active.astype(jnp.int32)
  records = Records(
    tokens=jax.vmap(append)(before.tokens, tokens, before.kept),
    kept=kept,
    cycles=before.cycles + count,
    accepted=column(before.accepted, gain),
    drafted=column(before.drafted, drafted),
    expected=jax.tree.map(column, before.expected, verdicts.expected),
    stops=before.stops.at[rows, verdicts.node].add(count),
    faults=before.faults + (verdicts.fault & active).astype(jnp.int32),
    trace=jax.tree.map(column, before.trace, verdicts.trace),
  )
  return records, done


def trace_tree(draft, coins, stop, decision, panel) -> Trace:
  """Returns what is to be seen of a drafted tree and its decisions."""
  tree, proposal, tokens, q, p = draft
  families = family.gather(tree, proposal, tokens, q, p)
  parent, rank = jnp.asarray(tree.parent)[1:], jnp.asarray(tree.rank)[1:]
  drawn = tokens[1:] != INVALID

  def of_tokens(values):
    values = jnp.where(drawn, values, 0)
    return jnp.concatenate([jnp.zeros_like(values[:1]), values])

  return Trace(
    tokens=tokens,
    p=of_tokens(families.p_at[parent, rank]),
    q=of_tokens(q[parent, jnp.maximum(tokens[1:], 0)]),
    drawn=of_tokens(families.laws.at[parent, rank, rank]),
    coins=coins,
    node=decision.node,
    accept=decision.accept,
    panel={
      name: Judged(stop[name], other.node, other.accept)
      for name, other in panel.items()
    },
    parent=None if isinstance(tree, Tree) else tree.parent,
  )


def trace_of(records: Records) -> Trace:
  """Returns the trees [cycles, N] of the first cycles of one row's records."""
  cycles = int(records.cycles[0])
  return jax.tree.map(lambda array: array[0, :cycles], records.trace)
