"""Reading prompts, and the cycle: draft, score, verify, commit.

All functions are pure functions of a frozen state.

Axes: B batch, N nodes, M nodes that have children, D depth, V vocabulary,
P prompt length, J width of the features that the draft reads.
"""

from __future__ import annotations

import dataclasses
import functools
from typing import NamedTuple

import jax
import jax.numpy as jnp

from tv_jax import drafting, probs
from tv_jax import tree as tree_lib
from tv_jax.drafting import Committed, Drafted
from tv_jax.drafting.drafter import last_committed
from tv_jax.engine.config import Static
from tv_jax.engine.state import (
  Caches,
  Params,
  Request,
  State,
  Verified,
  record,
)
from tv_jax.models import Cache, causal_pass, compact, mask
from tv_jax.proposals import INVALID
from tv_jax.verifiers import Draft, decide_checked, toss

# Maximum number of prompt tokens processed in one step. On a CPU four steps of
# 64 tokens take little longer than one of 256, and a short prompt needs one.
CHUNK, _CPU_CHUNK = 256, 64


def insert(
  static: Static,
  params: Params,
  state: State,
  request: Request,
  slot: jax.Array,
) -> State:
  """Reads prompts into the caches of some slots.

  A prompt's last token becomes the first root, so its cache row is not used.
  The first prompt is read into `slot`, the others into the following slots. The
  previous contents of these slots are overwritten. Other rows do not change.
  """
  length, P = request.length, request.tokens.shape[1] - 1
  size = min(P, CHUNK)
  if jax.default_backend() == "cpu":
    size = min(size, _CPU_CHUNK)
  # The old cache rows are set to 0. Masking would not suffice, since 0
  # times NaN is NaN.
  caches, records, feature = jax.tree.map(
    lambda x: jnp.zeros_like(x[: len(length)]),
    (state.caches, state.records, state.committed.features[:, :1]),
  )

  def read(at, carry):
    return _read(static, params, request, size, at, *carry)

  if size == P:
    caches, feature = read(jnp.int32(0), (caches, feature))
  else:
    # The last token of a prompt is not read, since it is the first root.
    pieces = -(-(jnp.max(length) - 1) // size)
    caches, feature = jax.lax.fori_loop(
      0, pieces, lambda i, carry: read(i * size, carry), (caches, feature)
    )
  before_root = jnp.maximum(length - 1, 0)
  target = dataclasses.replace(caches.target, length=before_root)
  draft_cache = caches.draft
  if draft_cache:
    # The first cycle's draft reads the last two tokens of the prompt.
    before_last = jnp.maximum(length - 2, 0)
    draft_cache = dataclasses.replace(draft_cache, length=before_last)
  # The last two tokens of each prompt; a prompt of one token repeats it.
  last = length[:, None] - jnp.array([[2, 1]], jnp.int32)
  tokens = jnp.take_along_axis(request.tokens, jnp.maximum(last, 0), axis=1)
  D = static.depth
  rows = State(
    length=length,
    limit=request.limit,
    keys=jax.vmap(jax.random.fold_in, (None, 0))(params.key, request.item),
    done=(length == 0) | (request.limit <= 0),
    committed=Committed(
      tokens=jnp.pad(tokens, ((0, 0), (0, D))),
      features=jnp.pad(feature, ((0, 0), (0, D), (0, 0))),
      gain=jnp.ones_like(length),
    ),
    caches=Caches(target, draft_cache),
    records=records,
  )
  return jax.tree.map(
    lambda batch, x: jax.lax.dynamic_update_slice_in_dim(batch, x, slot, 0),
    state,
    rows,
  )


def _read(static, params, request, size, at, caches, feature):
  """Reads tokens `at` to `at + size` of the prompts.

  Returns:
    The caches, and the target's features [B, 1, J] of the token before the
    root, from the step that reads this token.
  """
  tokens, following = (
    jax.lax.dynamic_slice_in_dim(request.tokens, at + shift, size, axis=1)
    for shift in (0, 1)
  )
  _, features, target = causal_pass(
    static.target, params.target, (tokens,), caches.target
  )
  draft_cache = caches.draft
  if static.drafter:
    draft_cache = static.drafter.prefill(
      params.draft, tokens, following, features, draft_cache
    )
  index = request.length - 2 - at
  inside = ((index >= 0) & (index < size))[:, None, None]
  index = jnp.clip(index, 0, size - 1)[:, None, None]
  feature_here = jnp.take_along_axis(features, index, axis=1)
  return Caches(target, draft_cache), jnp.where(inside, feature_here, feature)


class Scored(NamedTuple):
  """The target's outputs for drafted trees."""

  p: jax.Array  # [B, N, V] probabilities of the token after each node
  features: jax.Array  # [B, N, J]
  cache: Cache  # node n is in slot length - 1 + n


def cycle(
  static: Static, params: Params, state: State
) -> tuple[State, Drafted, jax.Array]:
  """Runs one cycle.

  Returns:
    The next state, the drafted trees, and the target's probabilities [B, N, V].
  """
  with jax.named_scope("draft"):
    drafted = grow(static, params, state)
  with jax.named_scope("target"):
    scored = score(static, params, state, drafted)
  with jax.named_scope("verify"):
    verified = verify(static, params, state, drafted, scored.p)
  with jax.named_scope("commit"):
    state = commit(static, state, drafted, scored, verified)
  return state, drafted._replace(cache=None), scored.p


def grow(static: Static, params: Params, state: State) -> Drafted:
  """Drafts a tree for each row; in plain decoding only its root."""
  if not static.drafter:
    root = last_committed(state.committed)
    return Drafted(
      tokens=root,
      q=jnp.zeros((len(root), 0, 0)),
      root=state.length - 1,
      cache=None,
      fault=jnp.zeros_like(state.done),
    )
  assert static.tree
  assert static.proposal
  assert params.draft is not None
  assert state.caches.draft is not None
  return drafting.grow(
    static.drafter,
    params.draft,
    static.tree,
    state.committed,
    state.length,
    state.caches.draft,
    keys=_keys(state)[:, 0],
    proposal=static.proposal,
    to_probabilities=_sampling(static, params.draft_temperature),
  )


def score(
  static: Static, params: Params, state: State, drafted: Drafted
) -> Scored:
  """Runs the target on all nodes in one pass, with a tree attention mask."""
  cache = state.caches.target
  depth, ancestors = jnp.zeros(1, jnp.int32), jnp.ones((1, 1), bool)
  if static.tree:
    depth = jnp.asarray(static.tree.depth)
    ancestors = jnp.asarray(static.tree.ancestors)
  logits, features, cache = static.target.apply(
    {"params": params.target},
    drafted.tokens,
    cache.length[:, None] + depth[None],
    mask.tree(cache.length, ancestors, cache.slots),
    cache,
  )
  temperature = 0.0 if static.greedy else params.temperature
  p = _sampling(static, temperature)(logits)
  return Scored(p=p, features=features, cache=cache)


def verify(
  static: Static,
  params: Params,
  state: State,
  drafted: Drafted,
  p: jax.Array,  # [B, N, V]
) -> Verified:
  """Decides which node of each row's tree is accepted; draws bonus tokens."""
  keys = _keys(state)[:, 1]
  if not static.tree:
    p = p[:, 0]
    # A softmax with a NaN is NaN everywhere: one entry is tested, and after a
    # fault all tokens are as likely.
    fault = jnp.isnan(p[:, 0])
    p = jnp.where(fault[:, None], 1 / p.shape[1], p)
    tokens = jax.vmap(probs.draw)(keys, p)
    return Verified(jnp.zeros_like(tokens), tokens, fault, {})

  def verify_row(*row):
    return _verify_row(static, params.rule, *row)

  eta = coins(state, static.nodes, p.dtype)
  return jax.vmap(verify_row)(
    keys, eta, drafted.tokens, drafted.q, p, drafted.fault
  )


def coins(state: State, nodes: int, dtype=jnp.float32) -> jax.Array:
  """Returns the uniforms [B, N] of the next cycle."""

  def of_row(key):
    own, _ = jax.random.split(key)  # the other one draws the bonus token
    return toss(own, nodes, dtype)

  return jax.vmap(of_row)(_keys(state)[:, 1])


def _verify_row(static, choice, key, eta, tokens, q, p, fault) -> Verified:
  """`verify` for one row: eta and tokens [N], q [M, V], p [N, V]."""
  # A softmax with a NaN is NaN everywhere, so one entry of each row is tested.
  # Rules ignore nodes without a token, so a NaN after such a node is no fault.
  undefined = jnp.isnan(q[:, 0]) & (tokens[static.tree.inner] != INVALID)
  fault |= jnp.any(undefined)
  if jax.default_backend() == "cpu":
    # Keeps XLA from fusing the verification with other operations, which would
    # change last digits from program to program.
    tokens, q, p = jax.lax.optimization_barrier((tokens, q, p))
  q = tree_lib.to_all_nodes(static.tree, q)
  draft = Draft(static.tree, static.proposal, tokens, q, p)
  offers = {rule: rule.offers(draft) for rule in static.panel}

  def decide(rule):
    return decide_checked(rule, draft, eta, offers.get(rule))

  decision = jax.lax.switch(
    choice, [functools.partial(decide, rule) for rule in static.among]
  )
  stop = {rule.name: rule.stopping(draft, own) for rule, own in offers.items()}
  gained = jnp.asarray(static.tree.depth + 1, p.dtype)
  _, bonus = jax.random.split(key)
  return Verified(
    node=decision.node,
    token=probs.draw(bonus, decision.residual),
    fault=fault | decision.fault,
    expected={name: chances @ gained for name, chances in stop.items()},
  )


def commit(
  static: Static,
  state: State,
  drafted: Drafted,
  scored: Scored,
  verified: Verified,
) -> State:
  """Appends the accepted path and the bonus token, and discards the rest."""
  node, active, draft_cache = verified.node, ~state.done, drafted.cache
  tree = static.tree
  if static.drafter and tree:
    path = jnp.asarray(tree.paths)[node]
    gain = jnp.where(active, jnp.asarray(tree.depth)[node] + 1, 0)
    assert draft_cache is not None
    draft_cache = static.drafter.commit(
      draft_cache, tree, drafted.root, path, gain
    )
  else:
    path, gain = node[:, None], active.astype(jnp.int32)
  # With path = [root, 2, 5, -] and gain = 3: [root, token 2, token 5, bonus].
  tokens = jnp.take_along_axis(drafted.tokens, path, axis=1)
  tokens = jnp.concatenate([tokens, tokens[:, -1:]], axis=1)
  index = jnp.arange(tokens.shape[1], dtype=jnp.int32)[None]
  tokens = jnp.where(index == gain[:, None], verified.token[:, None], tokens)
  features = jnp.take_along_axis(scored.features, path[..., None], axis=1)
  count = jnp.sum(drafted.tokens[:, 1:] != INVALID, axis=1, dtype=jnp.int32)
  records, done = record(static, state, tokens[:, 1:], gain, count, verified)
  start = state.length - 1
  if tree and not tree.is_chain:
    target = compact(scored.cache, start, path, gain)
  else:  # a chain's accepted nodes are in place already, without a copy
    target = dataclasses.replace(scored.cache, length=start + gain)
  return dataclasses.replace(
    state,
    length=state.length + gain,
    done=done,
    committed=Committed(tokens=tokens, features=features, gain=gain),
    caches=Caches(target=target, draft=draft_cache),
    records=records,
  )


def _sampling(static: Static, temperature):
  """Returns the function from logits [.., V] to sampling probabilities."""
  return functools.partial(
    probs.from_logits,
    temperature=temperature,
    top_k=static.top_k,
    top_p=static.top_p,
  )


def _keys(state):
  """Returns [B, 2] keys for this cycle: to draft with, and to verify with."""
  keys = jax.vmap(jax.random.fold_in)(state.keys, state.records.cycles)
  return jax.vmap(jax.random.split)(keys)
