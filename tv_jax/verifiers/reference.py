"""The paper's algorithms as they are printed, node by node, on dense arrays.

Weng et al., "Traversal Verification for Speculative Tree Decoding" (NeurIPS
2025). Algorithm 2, applied at each node from the root down, is token-level
verification. Algorithm 3 is Traversal Verification. M_b is the distribution of
the target, and M_s the distribution of a drafted child. The paper's two ways
to draw are the proposals `without_replacement` and `with_replacement`.

Both are loops over the array-encoded tree, which end once the accepted node is
known. They return decisions only. token_level.py and traversal.py make the same
decisions with the same coins, by other arithmetic, and also have a stopping
distribution.

Axes: N nodes, K children of a node, V vocabulary.
"""

from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from tv_jax.proposals import INVALID
from tv_jax.tree import NO_CHILD, ROOT
from tv_jax.verifiers.base import NOT_OFFERED, Decision, Draft, Verifier
from tv_jax.verifiers.walk import settle


class _Descent(NamedTuple):
  """The state of Algorithm 2. All nodes down to `node` are accepted."""

  node: jax.Array  # []
  rank: jax.Array  # [] rank of the next child to offer
  M_b: jax.Array  # [V] the target's residual distribution after the node
  threshold: jax.Array  # [N]


def token_level(draft: Draft, eta: jax.Array) -> Decision:
  """Makes a decision by Algorithm 2, from the root down."""
  tokens, p, M_s = draft.tokens, draft.p, _drawn_from(draft)
  children = jnp.asarray(draft.tree.children)
  K = children.shape[1]

  def has_child(state: _Descent):
    child = children[state.node, jnp.minimum(state.rank, K - 1)]
    return (state.rank < K) & (child != NO_CHILD)

  def offer(state: _Descent) -> _Descent:
    node, rank, M_b, threshold = state
    child = children[node, rank]
    rate, exists = _rate(M_b[tokens[child]], M_s[child], tokens[child])
    accepted = eta[child] < rate
    surplus = _positive(M_b - M_s[child])
    rejected = exists & ~(jnp.sum(surplus) <= 0)  # a NaN passes on
    M_b = jnp.where(rejected, surplus / jnp.sum(surplus), M_b)
    return _Descent(
      node=jnp.where(accepted, child, node),
      rank=jnp.where(accepted, 0, rank + 1),
      M_b=jnp.where(accepted, p[child], M_b),
      threshold=threshold.at[child].set(_compared(rate)),
    )

  root, threshold = jnp.int32(ROOT), jnp.full(len(tokens), NOT_OFFERED, p.dtype)
  start = _Descent(root, jnp.int32(0), p[ROOT], threshold)
  node, _, M_b, threshold = jax.lax.while_loop(has_child, offer, start)
  return _settle(node, M_b, p, threshold)


class _Traversal(NamedTuple):
  """The state of Algorithm 3: the remaining tree T and distributions."""

  deleted: jax.Array  # [] number of nodes offered, and so deleted from T
  accepted: jax.Array  # [] bool: whether the last deleted node was accepted
  p_alpha: jax.Array  # [N] acceptance rates
  M_b: jax.Array  # [N, V] the target's residual distributions after the nodes
  threshold: jax.Array  # [N]


def traversal(draft: Draft, eta: jax.Array) -> Decision:
  """Makes a decision by Algorithm 3."""
  tree, tokens, p, M_s = draft.tree, draft.tokens, draft.p, _drawn_from(draft)
  parent = jnp.asarray(tree.parent)
  below = jnp.asarray(tree.ancestors).T & ~np.eye(len(tokens), dtype=bool)
  # The first leaf of the remaining tree is the next node in post-order.
  order = jnp.asarray(tree.postorder)

  def update(nodes, p_alpha, M_b):
    """Recomputes the rates of the nodes in a mask [N], parents first."""

    def visit(node, p_alpha):
      M_b_at = p_alpha[parent[node]] * M_b[parent[node], tokens[node]]
      rate, _ = _rate(M_b_at, M_s[node], tokens[node])
      return p_alpha.at[node].set(jnp.where(nodes[node], rate, p_alpha[node]))

    return jax.lax.fori_loop(1, len(tokens), visit, p_alpha)

  def goes_on(state: _Traversal):
    return ~state.accepted & (order[state.deleted] != ROOT)

  def offer(state: _Traversal) -> _Traversal:
    deleted, _, p_alpha, M_b, threshold = state
    leaf = order[deleted]
    node, rate = parent[leaf], p_alpha[leaf]
    # Equations (e1) and (e3), for the rejection of the leaf.
    surplus = _positive(p_alpha[node] * M_b[node] - M_s[leaf])
    s = jnp.sum(surplus)
    size = s + (1 - p_alpha[node])  # at least s, also after rounding
    # If s is 0, p_alpha becomes 0. If the size is 0, no rejection is possible.
    _, exists = _rate(rate, M_s[leaf], tokens[leaf])
    rejected = exists & ~(size <= 0)  # a NaN passes on
    e1 = jnp.where(rejected & ~(s <= 0), surplus / s, M_b[node])
    e3 = jnp.where(rejected, s / size, p_alpha[node])
    M_b, p_alpha = M_b.at[node].set(e1), p_alpha.at[node].set(e3)
    return _Traversal(
      deleted=deleted + 1,
      accepted=eta[leaf] < rate,
      p_alpha=update(below[node], p_alpha, M_b),
      M_b=M_b,
      threshold=threshold.at[leaf].set(_compared(rate)),
    )

  p_alpha = jnp.ones(len(tokens), p.dtype)
  p_ini = update(below[ROOT], p_alpha, p)
  threshold = jnp.full(len(tokens), NOT_OFFERED, p.dtype)
  start = _Traversal(jnp.int32(0), jnp.bool(False), p_ini, p, threshold)
  end = jax.lax.while_loop(goes_on, offer, start)
  node = order[jnp.where(end.accepted, end.deleted - 1, end.deleted)]
  return _settle(node, end.M_b[node], p, end.threshold)


def _drawn_from(draft: Draft) -> jax.Array:
  """Returns M_s [N, V]: the distribution from which each node was drawn.

  The proposal gives the distributions of a node's K children as multiples of
  the node's row of q, and K values at the children's tokens.
  """
  tree, proposal, tokens, q, _ = draft

  def of_children(q, held):
    exists, V = held != INVALID, len(q)
    at = jnp.where(exists, held, V)  # V is dropped
    rest = jnp.sum(q.at[at].set(0, mode="drop"))
    scale, values = proposal.laws(jnp.where(exists, q[held], 0), rest, exists)
    rows = scale[:, None] * q[None]
    return rows.at[:, at].set(values, mode="drop")

  held = jnp.where(tree.children == NO_CHILD, INVALID, tokens[tree.children])
  return jax.vmap(of_children)(q, held)[tree.parent, tree.rank]


def _rate(M_b, M_s, token):
  """Returns min(M_b / M_s, 1) and True; 0 and False if nothing was drawn.

  M_b [] is the target's probability of the token, M_s [V] the distribution from
  which it was drawn.
  """
  exists = (token != INVALID) & ~(M_s[token] <= 0)  # True for a NaN
  rate = jnp.minimum(M_b / jnp.where(exists, M_s[token], 1), 1)
  return jnp.where(exists, rate, 0), exists


def _positive(x):
  return jnp.where(x <= 0, 0, x)  # `maximum` may lose a NaN


def _compared(rate) -> jax.Array:
  """Returns a node's threshold; a rate of 0 counts as not offered."""
  return jnp.where(rate <= 0, NOT_OFFERED, rate)


def _settle(node, M_b, p, threshold) -> Decision:
  fault = jnp.any(jnp.isnan(threshold))
  return settle(node=node, weights=M_b, p=p, threshold=threshold, fault=fault)


TOKEN_LEVEL = Verifier(name="token_level_reference", decision=token_level)
TRAVERSAL = Verifier(name="traversal_reference", decision=traversal)
