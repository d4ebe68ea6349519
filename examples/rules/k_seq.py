"""K-SEQ, the rule of SpecTr (Sun et al. 2023, arXiv 2310.15141).

For siblings that were drawn independently (`with_replacement`), duplicates
kept. K-SEQ goes down from the root, and every node starts with p. At a node
with k children, every child is accepted with the same function of its token,
whatever happened to its elder siblings:

    accept token x with probability  min(1, p(x) / (rho q(x)))
    reject one child with probability  m = sum [q - p / rho]_+
    draw the bonus token from  [p - rho q]_+

Here rho, between 1 and k, is chosen such that the probability of rejecting all
children equals the mass of the bonus token: m^k = sum [p - rho q]_+. The paper
writes the same equation as 1 - (1 - b)^k = rho b, with b = 1 - m. The form used
here has sums of positive terms on both sides, and keeps its digits when p is
almost q and all roots almost coincide.

Why it is lossless: the children yield x with probability
min(p / rho, q) (1 + m + .. + m^(k-1)). The bracket is (1 - m^k) / b, which is
rho at the root. So they yield min(p, rho q), and the bonus token the rest of p.
The difference of both sides changes sign once, and rho is found by bisection. A
larger rho accepts less; with a smaller one the children would take more than p.

All nodes with children are solved at once. One bisection step is a pass over
their rows of p and q; float32 takes some 25 steps, float64 some 55.

Axes: N nodes, M nodes that have children, K children of a node, V vocabulary.
"""

import jax
import jax.numpy as jnp
import numpy as np

from tv_jax.proposals import INVALID
from tv_jax.tree import NO_CHILD
from tv_jax.verifiers import DOWN, Draft, Offers, Verifier, positive
from tv_jax.verifiers.residual import rows


def offers(draft: Draft) -> Offers:
  """Computes the entry probabilities and residuals of all nodes."""
  tree, _, tokens, q, p = draft  # siblings are independent draws from q
  above, token = tree.parent[1:], jnp.maximum(tokens[1:], 0)
  p_at, q_at = p[above, token], q[above, token]
  exists = (tokens[1:] != INVALID) & ~(q_at <= 0)
  drawn = jnp.concatenate([jnp.zeros(1, bool), exists])[tree.children]
  drawn &= tree.children != NO_CHILD
  inner = tree.inner
  count = jnp.sum(drawn, axis=1, dtype=jnp.int32)[inner]
  laws = rows(q, inner), rows(p, inner)
  rho, missed = _solve(*laws, count, tree.max_children)
  rho = jnp.where(jnp.isnan(missed), missed, rho)  # bisection hides a NaN
  rho = (
    jnp.zeros(len(tree), p.dtype).at[inner].set(jnp.where(count > 0, rho, 0))
  )
  size = jnp.where(exists, rho[above] * q_at, 1)
  entry = jnp.where(exists, jnp.minimum(1, p_at / size), 0)
  entry = jnp.concatenate([jnp.zeros_like(entry[:1]), entry])

  def residual(node):
    # A leaf's row of q is not used, because it may be arbitrary.
    return positive(p[node] - jnp.where(rho[node] > 0, rho[node] * q[node], 0))

  return Offers(chance=entry, offered=entry > 0, residual=residual)


def _solve(q, p, count, most):
  """Returns rho [M] of nodes with `count` [M] children, and m [M] at rho."""

  def miss(rho):
    return jnp.sum(positive(q - p / rho[:, None]), axis=1)

  def bisect(_, ends):
    low, high = ends
    middle = (low + high) / 2
    wanted = jnp.sum(positive(p - middle[:, None] * q), axis=1)
    enough = miss(middle) ** count >= wanted
    return jnp.where(enough, low, middle), jnp.where(enough, middle, high)

  # Enough steps to make both ends neighbouring floats.
  digits = jnp.finfo(p.dtype).nmant + int(np.ceil(np.log2(most)))
  count = jnp.maximum(count, 1).astype(p.dtype)
  low = jnp.ones_like(count)
  _, rho = jax.lax.fori_loop(0, digits + 1, bisect, (low, count))
  return rho, miss(rho)


rule = Verifier(
  name="k_seq", offers=offers, walk=DOWN, proposals=("with_replacement",)
)
