"""A cycle: draft, score, verify, commit. Pure functions of a frozen state.

Axes: B batch, N nodes, M nodes that have children, D depth, V vocabulary,
J what the draft reads of a token.
"""

from __future__ import annotations

import dataclasses
import functools
from typing import NamedTuple, cast

import jax
import jax.numpy as jnp

from tv_jax import drafting, probs
from tv_jax.drafting import Committed, Drafted, Growing
from tv_jax.engine import records as records_lib
from tv_jax.engine.config import DecodeConfig
from tv_jax.engine.records import Trace
from tv_jax.engine.state import Caches, Params, State
from tv_jax.models import Cache, compact, mask
from tv_jax.proposals import INVALID
from tv_jax.verifiers import Shape, checked, draw_bonus, toss


class Scored(NamedTuple):
  """The target's view of a drafted tree."""

  laws: jax.Array  # [B, N, V] of the token after each node
  features: jax.Array  # [B, N, J]
  cache: Cache  # with node n in slot length - 1 + n


class Verdicts(NamedTuple):
  """What is decided about the rows' trees."""

  node: jax.Array  # [B] int32 the accepted node
  token: jax.Array  # [B] int32 the bonus token
  fault: jax.Array  # [B] bool
  expected: dict[str, jax.Array]  # [B] float32 by verifier of the panel
  trace: Trace | None  # [B, ..]


def cycle(config: DecodeConfig, params: Params, state: State) -> State:
  """Drafts, scores, verifies, commits."""
  return observe(config, params, state)[0]


def observe(
  config: DecodeConfig, params: Params, state: State
) -> tuple[State, Drafted, jax.Array]:
  """Runs a cycle; returns what was drafted and the laws [B, N, V] as well."""
  with jax.named_scope("draft"):
    drafted = draft(config, params, state)
  with jax.named_scope("target"):
    scored = score(config, params, state, drafted)
  with jax.named_scope("verify"):
    verdicts = verify(config, params, state, drafted, scored.laws)
  with jax.named_scope("commit"):
    state = commit(config, state, drafted, scored, verdicts)
  return state, drafted, scored.laws


def draft(config: DecodeConfig, params: Params, state: State) -> Drafted:
  """Drafts a tree for each row; in plain decoding the root alone."""
  if not config.drafter:
    last = jnp.maximum(state.committed.gain, 1)[:, None]
    root = jnp.take_along_axis(state.committed.tokens, last, axis=1)
    return Drafted(
      tokens=root,
      laws=jnp.zeros((len(root), 0, 0)),
      topology=None,
      root=state.length - 1,
      cache=None,
    )
  assert config.tree
  assert config.proposal
  assert params.draft is not None
  assert state.caches.draft is not None
  growing = Growing(
    drafter=config.drafter,
    params=params.draft,
    proposal=config.proposal,
    law=_law(config, params.draft_temperature),
    keys=_keys(state)[:, 0],
    going=~state.done,
  )
  return drafting.grow(
    growing, config.tree, state.committed, state.length, state.caches.draft
  )


def score(
  config: DecodeConfig, params: Params, state: State, draft: Drafted
) -> Scored:
  """Runs one pass of the target over whole trees, roots included."""
  cache = state.caches.target
  depth, ancestors = jnp.zeros(1, jnp.int32), jnp.ones((1, 1), bool)
  if config.tree:
    depth = jnp.asarray(config.tree.depth)
    shape = cast(Shape, draft.topology or config.tree)
    ancestors = jnp.asarray(shape.ancestors)
  logits, features, cache = config.target.apply(
    {"params": params.target},
    draft.tokens,
    cache.length[:, None] + depth[None],
    mask.tree(cache.length, ancestors, cache.slots),
    cache,
  )
  law = _law(config, params.temperature if config.temperature else 0.0)
  return Scored(laws=law(logits), features=features, cache=cache)


def verify(
  config: DecodeConfig,
  params: Params,
  state: State,
  draft: Drafted,
  laws: jax.Array,  # [B, N, V]
) -> Verdicts:
  """Decides what is accepted of each row's tree; draws its bonus token."""
  keys = _keys(state)[:, 1]
  if not config.tree:
    tokens = jax.vmap(probs.draw)(keys, laws[:, 0])
    fault = jnp.isnan(laws[:, 0]).any(axis=-1)
    return Verdicts(jnp.zeros_like(tokens), tokens, fault, {}, None)

  def verify_row(*row):
    return _verify_row(config, params.rule, *row)

  return jax.vmap(verify_row)(
    keys, draft.topology, draft.tokens, draft.laws, laws, draft.fault
  )


def _verify_row(config, choice, key, topology, tokens, q, p, fault) -> Verdicts:
  """`verify` for one row: tokens [N], q [M, V], p [N, V]."""
  tree = cast(Shape, topology or config.tree)
  # A law with a NaN in it is NaN throughout. Nothing is drawn from it, or
  # nonsense: the first a rule need not see.
  undefined = jnp.isnan(q[:, 0]) & (tokens[config.tree.inner] != INVALID)
  fault = jnp.any(undefined) | (False if fault is None else fault)
  if jax.default_backend() == "cpu":
    # Fused with what is around it, a last digit would differ from program to
    # program.
    tokens, q, p = jax.lax.optimization_barrier((tokens, q, p))
  q = drafting.spread(config.tree, q)
  draft = tree, config.proposal, tokens, q, p
  eta = toss(key, config.nodes, p.dtype)
  offers = {rule: rule.offers(*draft) for rule in config.panel if rule.offers}

  def decide(rule):
    if rule in offers:  # where its stop law is asked for as well
      return rule.decide_from(offers[rule], tree, tokens, p, eta)
    decision = rule.decide(*draft, eta)
    return decision if rule.offers else checked(decision, tokens, p)

  decisions = [functools.partial(decide, rule) for rule in config.rules]
  if len(decisions) == 1:
    decision = decisions[0]()
  else:
    decision = jax.lax.switch(choice, decisions)
  stop = {
    rule.name: rule.stop_law_from(offers[rule], tree, tokens) for rule in offers
  }
  trace = None
  if config.trace:
    panel = {rule.name: decide(rule) for rule in offers}
    trace = records_lib.trace(draft, eta, stop, decision, panel)
  gained = jnp.asarray(config.tree.depth + 1, p.dtype)
  return Verdicts(
    node=decision.node,
    token=draw_bonus(key, decision),
    fault=fault | decision.fault,
    expected={name: law @ gained for name, law in stop.items()},
    trace=trace,
  )


def commit(
  config: DecodeConfig,
  state: State,
  draft: Drafted,
  scored: Scored,
  verdicts: Verdicts,
) -> State:
  """Keeps the accepted path and the bonus token, forgets the rest."""
  node, active, draft_cache = verdicts.node, ~state.done, draft.cache
  tree = config.tree
  if config.drafter and tree:
    path = _paths(tree, draft.topology, node)
    gain = jnp.where(active, jnp.asarray(tree.depth)[node] + 1, 0)
    assert draft_cache is not None
    # The root's slot in the draft's cache stays a finished row's last.
    draft_cache = config.drafter.commit(
      draft_cache, tree, draft.root, path, gain
    )
  else:
    path, gain = node[:, None], active.astype(jnp.int32)
  # With path = [root, 2, 5, -] and gain = 3: [root, token 2, token 5, bonus].
  tokens = jnp.take_along_axis(draft.tokens, path, axis=1)
  tokens = jnp.concatenate([tokens, tokens[:, -1:]], axis=1)
  place = jnp.arange(tokens.shape[1], dtype=jnp.int32)[None]
  tokens = jnp.where(place == gain[:, None], verdicts.token[:, None], tokens)
  features = jnp.take_along_axis(scored.features, path[..., None], axis=1)
  drafted = jnp.sum(draft.tokens[:, 1:] != INVALID, axis=1, dtype=jnp.int32)
  records, done = records_lib.record(
    config,
    state.records,
    state.done,
    state.limit,
    tokens[:, 1:],
    gain,
    drafted,
    verdicts,
  )
  start = state.length - 1
  if tree and not tree.is_chain:
    target = compact(scored.cache, start, path, gain)
  else:  # all of a chain lies where it is to stay; to move it costs a copy
    target = dataclasses.replace(scored.cache, length=start + gain)
  return dataclasses.replace(
    state,
    length=state.length + gain,
    done=done,
    committed=Committed(tokens=tokens, features=features, gain=gain),
    caches=Caches(target=target, draft=draft_cache),
    records=records,
  )


def _paths(tree, topology, node):
  """[B, D + 1] the nodes from the roots down to the accepted ones."""
  if topology is None:
    return jnp.asarray(tree.paths)[node]
  return jnp.take_along_axis(topology.paths, node[:, None, None], axis=1)[:, 0]


def _law(config, temperature):
  def law(logits):
    return probs.law(
      logits,
      temperature=temperature,
      top_k=config.top_k,
      top_p=config.top_p,
    )

  return law


def _keys(state):
  """[B, 2] of each row's cycle: one to draft with, one to verify with."""
  keys = jax.vmap(jax.random.fold_in)(state.keys, state.records.cycles)
  return jax.vmap(jax.random.split)(keys)
