"""Mistakes that public code has made, planted in the traversal."""

import functools

import jax.numpy as jnp

from tv_jax.proposals import INVALID, PROPOSALS
from tv_jax.tree import ROOT
from tv_jax.verifiers import NOT_OFFERED, UP, VERIFIERS, Decision, Verifier

TRAVERSAL = VERIFIERS["traversal"]
# Each fault, and the proposal under which it shows.
FAULTS = {
  "zeroed with replacement": "with_replacement",
  "not zeroed without": "without_replacement",
  "soft q for one-hot drafts": "top_k",
  "divided by its own sum": "without_replacement",
  "descendants not refreshed": "without_replacement",
  "bonus from p inside": "without_replacement",
  "bonus after a full path": "without_replacement",
}
# The proposal that a rule takes the siblings to be drawn by.
_TAKEN_FOR = {
  "zeroed with replacement": "without_replacement",
  "not zeroed without": "with_replacement",
  "soft q for one-hot drafts": "without_replacement",
}


def _offers(fault, draft):
  tree, p = draft.tree, draft.p
  if fault in _TAKEN_FOR:
    draft = draft._replace(proposal=PROPOSALS[_TAKEN_FOR[fault]])
  sound = TRAVERSAL.offers(draft)
  chance = sound.chance
  if fault == "divided by its own sum":
    chance = VERIFIERS["token_level"].offers(draft).chance
  if fault == "descendants not refreshed":
    first = jnp.asarray(tree.rank == 0).at[ROOT].set(False)
    alone = draft._replace(tokens=jnp.where(first, INVALID, draft.tokens))
    chance = jnp.where(first, chance, TRAVERSAL.offers(alone).chance)
  leaf, parent = jnp.asarray(tree.num_children == 0), jnp.asarray(tree.parent)

  def residual(v):
    law = sound.residual(v)
    if fault == "bonus from p inside":
      law = jnp.where(leaf[v], law, p[v])
    if fault == "bonus after a full path":
      law = jnp.where(leaf[v], p[parent[v]], law)
    return law

  return sound._replace(chance=chance, residual=residual)


def rule(fault):
  return Verifier(
    name="planted", offers=functools.partial(_offers, fault), walk=UP
  )


# By name, for the command line.
bonus_from_p = rule("bonus from p inside")


def closed_coins(draft, eta):
  """A coin of 0 passes a threshold of 0."""
  return TRAVERSAL.decide(draft, jnp.where(eta == 0, -1, eta))


def block_that_stops(draft, eta):
  """Block verification read as: stop at the first rejection."""
  honest = VERIFIERS["block"].decide(draft, jnp.ones_like(eta))
  h = honest.threshold
  node, live = jnp.asarray(ROOT), jnp.asarray(True)
  threshold = jnp.full_like(h, NOT_OFFERED)
  for v in range(1, len(draft.tree)):
    live &= h[v] != NOT_OFFERED
    threshold = threshold.at[v].set(jnp.where(live, h[v], NOT_OFFERED))
    live &= eta[v] < h[v]
    node = jnp.where(live, v, node)
  # The residual of that node, from the honest rule by forced coins.
  forced = jnp.where(jnp.arange(len(eta)) <= node, 0.0, 1.0).astype(eta.dtype)
  return Decision(
    node=node.astype(jnp.int32),
    residual=VERIFIERS["block"].decide(draft, forced).residual,
    threshold=threshold,
    fault=jnp.asarray(False),
  )


def siblings_sorted_by_q(draft, eta):
  """An honest rule on the root's children in order of probability."""
  assert draft.tree.max_depth == 1
  tokens, p = draft.tokens, draft.p
  score = jnp.where(tokens == INVALID, -1, draft.q[ROOT][tokens])
  order = jnp.argsort(-score.at[ROOT].set(2)).astype(jnp.int32)
  sorted_draft = draft._replace(tokens=tokens[order], p=p[order])
  honest = TRAVERSAL.decide(sorted_draft, eta[order])
  return Decision(
    node=order[honest.node],
    residual=honest.residual,
    threshold=honest.threshold[jnp.argsort(order)],
    fault=honest.fault,
  )


def threshold_that_lies(draft, eta):
  """The decisions of another rule, with the traversal's thresholds."""
  return TRAVERSAL.decide(draft, eta**2)
