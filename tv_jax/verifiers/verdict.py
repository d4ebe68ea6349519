"""Verification of a drafted tree: coins, decision and bonus token.

Axes: N nodes, V vocabulary.
"""

from __future__ import annotations

import dataclasses
import functools

import jax
import jax.numpy as jnp
import numpy as np
from jax.core import Tracer

from tv_jax import probs, proposals
from tv_jax.io.errors import UserError
from tv_jax.proposals import INVALID
from tv_jax.tree import ROOT
from tv_jax.verifiers.base import Decide, Decision, Draft, Offers, Verifier
from tv_jax.verifiers.checking import check_drafts
from tv_jax.verifiers.table import resolve, unsupported_reason
from tv_jax.verifiers.walk import settle


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True, kw_only=True)
class Verdict:
  """The output of a cycle: the tokens on the path to `node`, then `token`."""

  node: jax.Array  # [] int32 the accepted node
  length: jax.Array  # [] int32 tokens gained: the node's depth + 1
  token: jax.Array  # [] int32 the bonus token
  fault: jax.Array  # [] bool: as in `Decision`


def toss(key: jax.Array, count: int, dtype) -> jax.Array:
  """Draws the uniforms [count] of a verification."""
  # One float32 uniform has 23 bits. It would be 0 once in 2^23 draws, and 0 is
  # less than even the smallest threshold. A second draw adds lower digits.
  coarse, fine = jax.random.uniform(key, (2, count), dtype)
  eta = coarse + fine * jnp.finfo(dtype).eps
  return jnp.minimum(eta, 1 - jnp.finfo(dtype).epsneg)


def decide_checked(
  rule: Verifier, draft: Draft, eta: jax.Array, offers: Offers | None = None
) -> Decision:
  """Makes the rule's decision, and checks it if the rule has no offers.

  An invalid decision becomes a fault: one step of plain decoding. A decision is
  invalid if its node is outside the tree or has no token, or if its residual
  has a negative entry or no positive finite sum. Decisions that are derived
  from offers are always valid. For the arguments see `Verifier.decide`.
  """
  decision = rule.decide(draft, eta, offers)
  if rule.offers:
    return decision
  node, total = decision.node, jnp.sum(decision.residual)
  inside = (node >= ROOT) & (node < len(draft.tokens))
  drawn = draft.tokens[jnp.where(inside, node, ROOT)] != INVALID
  valid = inside & (drawn | (node == ROOT))
  valid &= (total > 0) & (total < jnp.inf) & (jnp.min(decision.residual) >= 0)
  plain = settle(
    node=node,
    weights=draft.p[ROOT],
    p=draft.p,
    threshold=decision.threshold,
    fault=jnp.bool(True),
  )
  return jax.tree.map(lambda x, y: jnp.where(valid, x, y), decision, plain)


def verify(
  key: jax.Array, verifier: Verifier | Decide | str, draft: Draft
) -> Verdict:
  """Verifies one drafted tree.

  Args:
    key: A `jax.random.key`, for the coins and the bonus token.
    verifier: A name of `VERIFIERS`, a `Verifier`, or a `decide` function.
    draft: The drafted tree. Its proposal may be a name of `PROPOSALS`.

  Raises:
    UserError: The draft is malformed, or the rule is not defined for this tree
      or proposal. Under `jit` and `vmap` the draft is not checked.
  """
  proposal, rule = proposals.resolve(draft.proposal), resolve(verifier)
  tree, _, tokens, q, p = draft
  if reason := unsupported_reason(rule, tree, proposal):
    raise UserError(reason)
  draft = Draft(
    tree,
    proposal,
    jnp.asarray(tokens, jnp.int32),
    jnp.asarray(q),
    jnp.asarray(p),
  )
  arrays = draft[2:]
  N, V, shapes = len(tree), np.shape(p)[-1], [array.shape for array in arrays]
  if shapes != [(N,), (N, V), (N, V)]:
    raise UserError(
      f"tokens, q and p have shapes {shapes}: the tree has {N} nodes, give"
      f" [{N}], [{N}, V] and [{N}, V]"
    )
  if not any(isinstance(array, Tracer) for array in arrays):
    # The tokens as they were given: a cast to int32 could wrap.
    check_drafts(tree, *(np.asarray(array)[None] for array in (tokens, q, p)))
  return _verify(key, rule, Draft(tree, proposal, *arrays))


@functools.partial(jax.jit, static_argnums=1)
def _verify(key, rule, draft: Draft) -> Verdict:
  coins, bonus = jax.random.split(key)
  eta = toss(coins, len(draft.tokens), draft.p.dtype)
  decision = decide_checked(rule, draft, eta)
  return Verdict(
    node=decision.node,
    length=jnp.asarray(draft.tree.depth)[decision.node] + 1,
    token=probs.draw(bonus, decision.residual),
    fault=decision.fault,
  )
