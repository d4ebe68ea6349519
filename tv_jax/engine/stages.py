"""A cycle: draft, score, verify, commit. Pure functions of a frozen state.

Axes: B batch, N nodes, M nodes that have children, D depth, V vocabulary,
J what the draft reads of a token, W new tokens at most, C cycles at most.
"""

from __future__ import annotations

import dataclasses
import functools
from typing import NamedTuple, cast

import jax
import jax.numpy as jnp

from tv_jax import drafting, probs, verifiers
from tv_jax.drafting import Drafted, Growing, News
from tv_jax.engine import columns
from tv_jax.engine.plan import Caches, Params, Plan, Request, State
from tv_jax.engine.trace import Trace, look
from tv_jax.models import Cache, compact, mask
from tv_jax.proposals import INVALID
from tv_jax.verifiers import Decision, Shape, checked


class Scored(NamedTuple):
  """The target's view of a drafted tree."""

  laws: jax.Array  # [B, N, V] of the token after each node
  features: jax.Array  # [B, N, J]
  cache: Cache  # with node n in slot length - 1 + n
  logits: jax.Array | None  # [B, N, V] if log-probabilities are recorded


class Verdicts(NamedTuple):
  """What is decided about the rows' trees."""

  node: jax.Array  # [B] int32 the accepted node
  token: jax.Array  # [B] int32 the bonus token
  fault: jax.Array  # [B] bool
  expected: dict[str, jax.Array]  # [B] float32 by verifier of the panel
  trace: Trace | None  # [B, ..]


def draft(
  plan: Plan, params: Params, request: Request, state: State
) -> Drafted:
  """Drafts a tree for each row; without a drafter, the root alone."""
  how = plan.speculation
  if not how:
    return plain(state)
  assert params.draft is not None
  assert state.caches.draft is not None
  growing = Growing(
    drafter=how.drafter,
    params=params.draft,
    proposal=how.proposal,
    law=_law(plan, request.draft_temperature),
    keys=_keys(request, state)[:, 0],
    going=~state.done,
  )
  return drafting.grow(
    growing, how.tree, state.news, state.length, state.caches.draft
  )


def score(
  plan: Plan,
  params: Params,
  request: Request,
  state: State,
  draft: Drafted,
) -> Scored:
  """Runs one pass of the target over whole trees, roots included."""
  cache = state.caches.target
  if plan.speculation:
    tree = plan.speculation.tree
    depth = jnp.asarray(tree.depth)
    shape = cast(Shape, draft.topology or tree)
    ancestors = jnp.asarray(shape.ancestors)
  else:
    depth, ancestors = jnp.zeros(1, jnp.int32), jnp.ones((1, 1), bool)
  logits, features, cache = plan.target.apply(
    {"params": params.target},
    draft.tokens,
    cache.length[:, None] + depth[None],
    mask.tree(cache.length, ancestors, cache.slots),
    cache,
  )
  law = _law(plan, 0.0 if plan.greedy else request.temperature)
  return Scored(
    laws=law(logits),
    features=features,
    cache=cache,
    logits=logits if plan.logprobs else None,
  )


def verify(
  plan: Plan,
  request: Request,
  state: State,
  draft: Drafted,
  laws: jax.Array,  # [B, N, V]
) -> Verdicts:
  """Decides what is accepted of each row's tree; draws its bonus token."""
  keys = _keys(request, state)[:, 1]
  if not plan.speculation:
    tokens = jax.vmap(probs.draw)(keys, laws[:, 0])
    fault = jnp.isnan(laws[:, 0]).any(axis=-1)
    return Verdicts(jnp.zeros_like(tokens), tokens, fault, {}, None)
  how = plan.speculation
  gained = jnp.asarray(how.tree.depth + 1, laws.dtype)
  rules = how.verifier, *how.others

  def one(key, topology, tokens, q, p, misshapen):
    tree = cast(Shape, topology or how.tree)
    # A law with a NaN in it is NaN throughout. Nothing is drawn from it, or
    # nonsense: the first a rule need not see.
    undefined = jnp.isnan(q[:, 0]) & (tokens[how.tree.inner] != INVALID)
    fault = jnp.any(undefined)
    if misshapen is not None:
      fault |= misshapen
    if jax.default_backend() == "cpu":
      # Fused with what is around it, a last digit would differ from program
      # to program.
      tokens, q, p = jax.lax.optimization_barrier((tokens, q, p))
    q = drafting.spread(how.tree, q)
    given = tree, how.proposal, tokens, q, p
    offers = {rule: rule.offers(*given) for rule in plan.panel if rule.offers}

    def decide(rule, tokens, q, p, eta) -> Decision:
      if rule in offers:  # where its stop law is asked for as well
        return rule.decide_from(offers[rule], tree, tokens, p, eta)
      decision = rule.decide(tree, how.proposal, tokens, q, p, eta)
      return decision if rule.offers else checked(decision, tokens, p)

    decisions = [functools.partial(decide, rule) for rule in rules]
    eta = verifiers.toss(key, len(tokens), p.dtype)
    if len(rules) == 1:
      decision = decisions[0](tokens, q, p, eta)
    else:
      decision = jax.lax.switch(request.rule, decisions, tokens, q, p, eta)
    stop = {
      rule.name: rule.stop_law_from(offers[rule], tree, tokens)
      for rule in plan.panel
    }
    seen = look(key, *given, stop, decision.node) if plan.trace else None
    return Verdicts(
      node=decision.node,
      token=verifiers.draw_bonus(key, decision),
      fault=fault | decision.fault,
      expected={name: law @ gained for name, law in stop.items()},
      trace=seen,
    )

  drafted = draft.topology, draft.tokens, draft.laws
  return jax.vmap(one)(keys, *drafted, laws, draft.fault)


def commit(
  plan: Plan,
  request: Request,
  state: State,
  draft: Drafted,
  scored: Scored,
  verdicts: Verdicts,
) -> State:
  """Keeps the accepted path and the bonus token, forgets the rest.

  Args:
    plan: The plan.
    request: The batch.
    state: Before the cycle.
    draft: What was drafted.
    scored: What the target said.
    verdicts: What the verifier said.

  Returns:
    The state after the cycle.
  """
  node, active, draft_cache = verdicts.node, ~state.done, draft.cache
  if plan.speculation:
    tree = plan.speculation.tree
    assert draft_cache is not None
    path = _paths(tree, draft.topology, node)
    gain = jnp.where(active, jnp.asarray(tree.depth)[node] + 1, 0)
    draft_cache = plan.speculation.drafter.commit(
      draft_cache, tree, draft.root, path, gain
    )
    # The root's slot in the draft's cache stays a finished row's last.
  else:
    path, gain = node[:, None], active.astype(jnp.int32)
  # With path = [root, 2, 5, -] and gain = 3: [root, token 2, token 5, bonus].
  tokens = jnp.take_along_axis(draft.tokens, path, axis=1)
  tokens = jnp.concatenate([tokens, tokens[:, -1:]], axis=1)
  place = jnp.arange(tokens.shape[1], dtype=jnp.int32)[None]
  tokens = jnp.where(place == gain[:, None], verdicts.token[:, None], tokens)
  features = jnp.take_along_axis(scored.features, path[..., None], axis=1)
  drafted = jnp.sum(draft.tokens[:, 1:] != INVALID, axis=1, dtype=jnp.int32)
  logprobs = None
  if scored.logits is not None:
    logprobs = columns.logprobs(scored.logits, path, tokens)
  ending, stopping = None, state.stopping
  if stopping is not None:
    ending = columns.stopping(request, state, tokens[:, 1:])
    stopping = columns.last(ending, gain, stopping)
  records, done = columns.record(
    plan,
    request,
    state,
    tokens[:, 1:],
    gain,
    drafted,
    verdicts,
    ending,
    logprobs,
  )
  start = state.length - 1
  if plan.depth and not tree.is_chain:
    target = compact(scored.cache, start, path, gain)
  else:  # all of a chain lies where it is to stay; to move it costs a copy
    target = dataclasses.replace(scored.cache, length=start + gain)
  return State(
    length=state.length + gain,
    done=done,
    stopping=stopping,
    news=News(tokens=tokens, features=features, gain=gain),
    caches=Caches(target=target, draft=draft_cache),
    records=records,
  )


def _paths(tree, topology, node):
  """[B, D + 1] the nodes from the roots down to the accepted ones."""
  if topology is None:
    return jnp.asarray(tree.paths)[node]
  return jnp.take_along_axis(topology.paths, node[:, None, None], axis=1)[:, 0]


def cycle(plan: Plan, params: Params, request: Request, state: State) -> State:
  """Drafts, scores, verifies, commits."""
  return observe(plan, params, request, state)[0]


def observe(
  plan: Plan, params: Params, request: Request, state: State
) -> tuple[State, Drafted, jax.Array]:
  """Runs a cycle; returns what was drafted and the laws [B, N, V] as well."""
  with jax.named_scope("draft"):
    drafted = draft(plan, params, request, state)
  with jax.named_scope("target"):
    scored = score(plan, params, request, state, drafted)
  with jax.named_scope("verify"):
    verdicts = verify(plan, request, state, drafted, scored.laws)
  with jax.named_scope("commit"):
    state = commit(plan, request, state, drafted, scored, verdicts)
  return state, drafted, scored.laws


def plain(state: State) -> Drafted:
  """Returns plain decoding's tree: its root, the last committed token."""
  place = jnp.maximum(state.news.gain, 1)[:, None]
  root = jnp.take_along_axis(state.news.tokens, place, axis=1)
  return Drafted(
    tokens=root,
    laws=jnp.zeros((len(root), 0, 0)),
    topology=None,
    root=state.length - 1,
    cache=None,
  )


def _law(plan, temperature):
  def law(logits):
    return probs.law(
      logits, temperature=temperature, top_k=plan.top_k, top_p=plan.top_p
    )

  return law


def _keys(request, state):
  """[B, 2] of each row's cycle: one to draft with, one to verify with."""
  keys = jax.vmap(jax.random.fold_in)(request.keys, state.records.cycles)
  return jax.vmap(jax.random.split)(keys)
