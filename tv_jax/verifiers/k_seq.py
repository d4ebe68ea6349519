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

import jax
import jax.numpy as jnp
import numpy as np

from tv_jax.proposals import INVALID
from tv_jax.tree import NO_CHILD
from tv_jax.verifiers import family
from tv_jax.verifiers.offers import DOWN, Offers
from tv_jax.verifiers.residual import positive
from tv_jax.verifiers.verifier import Verifier


def offers(tree, proposal, tokens, q, p) -> Offers:
  """Returns what no coin changes."""
  del proposal  # independent draws from q
  above, token = tree.parent[1:], jnp.maximum(tokens[1:], 0)
  p_at, q_at = p[above, token], q[above, token]
  exists = (tokens[1:] != INVALID) & ~(q_at <= 0)
  drawn = jnp.concatenate([jnp.zeros(1, bool), exists])[tree.children]
  drawn &= tree.children != NO_CHILD
  inner = tree.inner
  count = jnp.sum(drawn, axis=1, dtype=jnp.int32)[inner]
  laws = family.rows(q, inner), family.rows(p, inner)
  rho, missed = _solve(*laws, count, tree.max_children)
  rho = jnp.where(jnp.isnan(missed), missed, rho)  # or halving hides it
  rho = family.spread(jnp.where(count > 0, rho, 0), inner, len(tree))
  size = jnp.where(exists, rho[above] * q_at, 1)
  entry = jnp.where(exists, jnp.minimum(1, p_at / size), 0)
  entry = jnp.concatenate([jnp.zeros_like(entry[:1]), entry])

  def residual(node):
    # A leaf's row of q, which need not hold anything, has no say.
    return positive(p[node] - jnp.where(rho[node] > 0, rho[node] * q[node], 0))

  return Offers(chance=entry, offered=entry > 0, residual=residual)


def _solve(q, p, count, most):
  """[M] rho of the families with `count` [M] children, and m there."""

  def miss(rho):
    return jnp.sum(positive(q - p / rho[:, None]), axis=1)

  def halve(_, ends):
    low, high = ends
    middle = (low + high) / 2
    wanted = jnp.sum(positive(p - middle[:, None] * q), axis=1)
    enough = miss(middle) ** count >= wanted
    return jnp.where(enough, low, middle), jnp.where(enough, middle, high)

  # Until the ends are neighbours.
  digits = jnp.finfo(p.dtype).nmant + int(np.ceil(np.log2(most)))
  count = jnp.maximum(count, 1).astype(p.dtype)
  low = jnp.ones_like(count)
  _, rho = jax.lax.fori_loop(0, digits + 1, halve, (low, count))
  return rho, miss(rho)


RULE = Verifier(
  name="k_seq", offers=offers, walk=DOWN, proposals=("with_replacement",)
)
