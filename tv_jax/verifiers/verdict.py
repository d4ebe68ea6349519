"""Verification of a drafted tree: coins, decision and bonus token.

Axes: C cycles, N nodes, M nodes that have children, V vocabulary.
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
from tv_jax.proposals import INVALID, Proposal
from tv_jax.tree import ROOT, Tree
from tv_jax.verifiers.decision import Decision, settle
from tv_jax.verifiers.offers import Offers
from tv_jax.verifiers.table import misfit, resolve
from tv_jax.verifiers.verifier import Decide, Verifier

# Largest difference of a row's sum from 1 that counts as rounding.
TOLERANCE = 1e-3


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
  coins, _ = jax.random.split(key)
  # One float32 uniform has 23 bits. It would be 0 once in 2^23 draws, and 0 is
  # less than even the smallest threshold. A second draw adds lower digits.
  coarse, fine = jax.random.uniform(coins, (2, count), dtype)
  eta = coarse + fine * jnp.finfo(dtype).eps
  return jnp.minimum(eta, 1 - jnp.finfo(dtype).epsneg)


def draw_bonus(key: jax.Array, decision: Decision) -> jax.Array:
  """Draws the bonus token; give the key that `toss` received."""
  _, bonus = jax.random.split(key)
  return probs.draw(bonus, decision.residual)


def decide_checked(
  rule: Verifier,
  tree: Tree,
  proposal: Proposal,
  tokens: jax.Array,
  q: jax.Array,
  p: jax.Array,
  eta: jax.Array,
  offers: Offers | None = None,
) -> Decision:
  """Makes the rule's decision, and checks it if the rule has no offers.

  An invalid decision becomes a fault: one step of plain decoding. A decision is
  invalid if its node is outside the tree or has no token, or if its residual
  has a negative entry or no positive finite sum. Decisions that are derived
  from offers are always valid. For the arguments see `Verifier.decide`.
  """
  decision = rule.decide(tree, proposal, tokens, q, p, eta, offers)
  if rule.offers:
    return decision
  node, total = decision.node, jnp.sum(decision.residual)
  inside = (node >= ROOT) & (node < len(tokens))
  drawn = tokens[jnp.where(inside, node, ROOT)] != INVALID
  valid = inside & (drawn | (node == ROOT))
  valid &= (total > 0) & (total < jnp.inf) & (jnp.min(decision.residual) >= 0)
  accept, fault = decision.accept, jnp.bool(True)
  plain = settle(node=node, weights=p[ROOT], p=p, accept=accept, fault=fault)
  return jax.tree.map(lambda x, y: jnp.where(valid, x, y), decision, plain)


def verify(
  key: jax.Array,
  verifier: Verifier | Decide | str,
  tree: Tree,
  proposal: Proposal | str,
  tokens: jax.Array,
  q: jax.Array,
  p: jax.Array,
) -> Verdict:
  """Verifies one drafted tree.

  Args:
    key: A `jax.random.key`, for the coins and the bonus token.
    verifier: A name of `VERIFIERS`, a `Verifier`, or a `decide` function.
    tree: The tree.
    proposal: A name of `PROPOSALS`, or a `Proposal`: how siblings were drawn.
    tokens: [N] Token of each node. The root's is ignored. INVALID if none could
      be drawn.
    q: [N, V] Draft probabilities of the token after each node. Rows of leaves
      are ignored.
    p: [N, V] Target probabilities of the token after each node.

  Raises:
    ValueError: The draft is malformed, or the rule is not defined for this tree
      or proposal. Under `jit` the draft is not checked.
  """
  proposal, rule = proposals.resolve(proposal), resolve(verifier)
  if reason := misfit(rule, tree, proposal):
    raise UserError(reason)
  draft = jnp.asarray(tokens, jnp.int32), jnp.asarray(q), jnp.asarray(p)
  N, V, shapes = len(tree), np.shape(p)[-1], [array.shape for array in draft]
  if shapes != [(N,), (N, V), (N, V)]:
    raise UserError(
      f"tokens, q and p have shapes {shapes}: the tree has {N} nodes, give"
      f" [{N}], [{N}, V] and [{N}, V]"
    )
  if not any(isinstance(array, Tracer) for array in draft):
    # Not the tokens as int32, since too large numbers would become tokens.
    check_drafts(tree, *(np.asarray(array)[None] for array in (tokens, q, p)))
  return _verify(key, rule, tree, proposal, *draft)


@functools.partial(jax.jit, static_argnums=(1, 2, 3))
def _verify(key, rule, tree, proposal, tokens, q, p) -> Verdict:
  eta = toss(key, len(tokens), p.dtype)
  decision = decide_checked(rule, tree, proposal, tokens, q, p, eta)
  return Verdict(
    node=decision.node,
    length=jnp.asarray(tree.depth)[decision.node] + 1,
    token=draw_bonus(key, decision),
    fault=decision.fault,
  )


def check_drafts(
  tree: Tree, tokens: np.ndarray, q: np.ndarray, p: np.ndarray
) -> None:
  """Refuses drafts that no verifier can judge, naming the first bad node.

  Args:
    tree: The tree of all cycles.
    tokens: [C, N]
    q: [C, M, V] after the nodes that have children, or [C, N, V] after all.
    p: [C, M, V] or [C, N, V] as well. Only p is checked after leaves.
  """
  N, inner, V = len(tree), tree.inner, p.shape[2]
  drawn = (tokens != INVALID) | (np.arange(N) == ROOT)
  valid = (tokens >= 0) & (tokens < V) & drawn[:, tree.parent]
  for cycle, i in np.argwhere(drawn[:, 1:] & ~valid[:, 1:])[:1]:
    raise UserError(
      f"{_of(cycle, tokens)}node {i + 1} has token {tokens[cycle, i + 1]}: give"
      f" 0 to {V - 1}. Give {INVALID} if no token could be drawn, and to all"
      " nodes below"
    )
  q = q if q.shape[1] == len(inner) else q[:, inner]
  for name, laws in (("q", q), ("p", p)):
    nodes = inner if laws.shape[1] == len(inner) else np.arange(N)
    total, least = laws.sum(axis=2, dtype=np.float64), laws.min(axis=2)
    # A NaN fails both comparisons.
    good = (least >= 0) & (abs(total - 1) <= TOLERANCE)
    for cycle, i in np.argwhere(drawn[:, nodes] & ~good)[:1]:
      raise UserError(
        f"{_of(cycle, tokens)}{name}[{nodes[i]}] sums to"
        f" {total[cycle, i]:.6g}, and its least entry is"
        f" {least[cycle, i]:.6g}: give probabilities, not logits or truncated"
        " probabilities"
      )


def _of(cycle: int, tokens: np.ndarray) -> str:
  return f"cycle {cycle}, " if len(tokens) > 1 else ""
