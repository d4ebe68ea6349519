"""K-SEQ, the rule of SpecTr (Sun et al. 2023), from the root down.

For siblings that were drawn independently (`with_replacement`), duplicates
kept. Token-level: every node starts with p, whatever its entry was. At a node
with k children every child is offered with the same chance, whatever became of
its elders:

    accept token x with chance  min(1, p(x) / (rho q(x)))
    m = sum [q - p / rho]_+         one child is rejected
    bonus from  [p - rho q]_+

where rho, between 1 and k, is such that all children are rejected as often as
the bonus is wanted: m^k = sum [p - rho q]_+. This is the paper's equation
1 - (1 - b)^k = rho b for b = 1 - m, with both sides taken from 1: what is small
is a sum of positive terms, also where p is nearly q and all roots nearly meet.

Lossless: x comes out of the children with chance min(p / rho, q)
(1 + m + .. + m^(k-1)), the bracket is (1 - m^k) / b = rho at the root, and so
it is min(p, rho q); the rest of p is the bonus token's. The left side less the
right one changes sign once: it is halved for. A larger rho takes less, a
smaller one takes more than p has.

All families of the tree at once; a halving is one pass over their rows of p
and q, some 25 of them in float32 and 55 in float64. The walk is that of
`token_level.py`.

Axes: N nodes, M nodes that have children, K children of a node, V vocabulary.
"""

from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from tv_jax import proposals
from tv_jax.proposals import INVALID
from tv_jax.tree import NO_CHILD, ROOT, Tree
from tv_jax.verifiers import down, family
from tv_jax.verifiers.decision import NOT_OFFERED, Decision, settle
from tv_jax.verifiers.residual import positive


class _Offers(NamedTuple):
  """Everything that no coin changes."""

  entry: jax.Array  # [N] the chance to enter a node once it is offered
  exists: jax.Array  # [N] whether it can be offered
  rho: jax.Array  # [N] of its children; 0 where there are none
  fault: jax.Array  # []


def _offers(tree, tokens, q, p) -> _Offers:
  above = tree.parent[1:]
  token = jnp.maximum(tokens[1:], 0)
  p_at, q_at = p[above, token], q[above, token]
  exists = (tokens[1:] != INVALID) & ~(q_at <= 0)
  exists = jnp.concatenate([jnp.zeros(1, bool), exists])
  there = (tree.children != NO_CHILD) & exists[tree.children]
  count = jnp.sum(there, axis=1, dtype=jnp.int32)
  inner = tree.inner
  rho, missed = _solve(
    family.rows(q, inner), family.rows(p, inner), count[inner], tree
  )
  own = jnp.where(exists[1:], rho[tree.family[above]] * q_at, 1)
  entry = jnp.where(exists[1:], jnp.minimum(1, p_at / own), 0)
  some = count[inner] > 0
  return _Offers(
    entry=jnp.concatenate([jnp.zeros_like(entry[:1]), entry]),
    exists=exists,
    rho=family.spread(jnp.where(some, rho, 0), inner, len(tree)),
    fault=jnp.any(jnp.isnan(entry)) | jnp.any(some & jnp.isnan(missed)),
  )


def _solve(q, p, count, tree):
  """[M] rho of the families with `count` [M] children, and m there."""

  def miss(rho):
    return jnp.sum(positive(q - p / rho[:, None]), axis=1)

  def halve(_, ends):
    low, high = ends
    middle = (low + high) / 2
    left = jnp.sum(positive(p - middle[:, None] * q), axis=1)
    enough = miss(middle) ** count >= left
    return jnp.where(enough, low, middle), jnp.where(enough, middle, high)

  # Until the ends are neighbours.
  digits = jnp.finfo(p.dtype).nmant + int(np.ceil(np.log2(tree.max_children)))
  count = jnp.maximum(count, 1).astype(p.dtype)
  low = jnp.ones_like(count)
  _, rho = jax.lax.fori_loop(0, digits + 1, halve, (low, count))
  return rho, miss(rho)


def decide(
  tree: Tree,
  proposal: proposals.Proposal,
  tokens: jax.Array,
  q: jax.Array,
  p: jax.Array,
  eta: jax.Array,
) -> Decision:
  """See `decision.Verifier`."""
  del proposal  # independent draws from q
  offers = _offers(tree, tokens, q, p)
  node, offered = down.walk(tree, offers.entry, offers.exists, eta)
  node = jnp.where(offers.fault, ROOT, node)
  rho = jnp.where(offers.fault, 0, offers.rho[node])
  # A leaf's row of q, which need not hold anything, has no say.
  return settle(
    node=node,
    weights=positive(p[node] - jnp.where(rho > 0, rho * q[node], 0)),
    p=p,
    accept=jnp.where(offered, offers.entry, NOT_OFFERED),
    fault=offers.fault,
  )


def stop_law(
  tree: Tree,
  proposal: proposals.Proposal,
  tokens: jax.Array,
  q: jax.Array,
  p: jax.Array,
) -> jax.Array:
  """[N] the chance to reach a node and to enter none of its children."""
  del proposal
  offers = _offers(tree, tokens, q, p)
  return down.stop_law(tree, jnp.where(offers.fault, 0, offers.entry))
