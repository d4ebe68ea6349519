"""The residual of a node, and the children that change it.

A node carries a residual g, an array over the vocabulary with sum at most 1.
Its mass, sum(g), is the probability that the node is accepted. Its shape,
g / sum(g), is the distribution of the bonus token after the node. Child j holds
the token t_j, drawn from q_j. It is entered with probability
min(1, g(t_j) / q_j(t_j)). If the child and all nodes below it are rejected,

    g <- [g - q_j]_+ / (sum [g - q_j]_+ + 1 - sum g)

This combines equations (e1) and (e3) of the paper. The divisor equals
sum [q_j - g]_+, because q_j sums to 1. Two properties are used:

- Outside the children's tokens, q_j is a multiple of q. There g always has the
  form [alpha p - beta q]_+. So g is determined by two numbers, and by its K
  values at the tokens.
- 1 - sum(g) is carried as a separate number, `DEFICIT`, and divided by the same
  divisor as g. So no step subtracts a sum from 1, which would lose digits.

The residuals of a tree are one array g [N, 4 + K], with a column for each
number. A rule begins all nodes, enters their children, and rejects a child of
some nodes at a time: `g = g.at[nodes].set(reject(..))`.

Axes: N nodes, n of them, K children of a node, V vocabulary.
"""

import functools
import operator
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from tv_jax.proposals import INVALID
from tv_jax.tree import NO_CHILD, Tree
from tv_jax.verifiers.base import Draft

# Beyond this number of children, XLA is kept from fusing successive rejections.
# A fused rejection would compute all earlier ones again, and compiling it would
# take minutes.
_WIDE = 8

# Columns of g. Column AT + k is g at the token of child k.
ALPHA, BETA, MASS, DEFICIT, AT = range(5)


def largest(dtype) -> float:
  """Returns the largest alpha and beta with which sums of rows are finite.

  Our proposals scale q by at most 1e31 in float32 (`proposals.min_mass`). So
  only several tiny divisors lead beyond this limit.
  """
  return float(jnp.finfo(dtype).max / 8)


class Law(NamedTuple):
  """The distribution q_j of a child."""

  scale: jax.Array  # [..] q_j = scale * q outside the siblings' tokens
  at: jax.Array  # [.., K] q_j at the siblings' tokens
  exists: jax.Array  # [..] whether the child exists, with q_j > 0 at its token


class Families(NamedTuple):
  """The children of each node, in draw order."""

  tokens: jax.Array  # [N, K] int32; INVALID as padding, or if none was drawn
  fresh: jax.Array  # [N, K] whether no elder sibling holds the same token
  p_at: jax.Array  # [N, K] target probabilities at the tokens
  laws: Law  # [N, K, ..] the distribution of each child


def gather(draft: Draft) -> Families:
  """Gathers the children of all nodes, with their distributions."""
  tree, proposal, tokens, q, p = draft
  N, K = tree.children.shape
  held = jnp.where(tree.children == NO_CHILD, INVALID, tokens[tree.children])
  valid = held != INVALID
  at_tokens = np.arange(N, dtype=np.int32)[:, None], jnp.maximum(held, 0)
  # The total probability of q outside the children's tokens costs a pass over a
  # row of q, so it is computed only for families that need it.
  asked = np.flatnonzero(tree.num_children > proposal.rest_from)
  rest = jnp.zeros(N, q.dtype)
  if len(asked):
    inside = _holds(rows(held, asked), q.shape[1])
    off = jnp.sum(jnp.where(inside, 0, rows(q, asked)), axis=1)
    rest = rest.at[asked].set(off)
  q_at = jnp.where(valid, q[at_tokens], 0)
  scale, at = jax.vmap(proposal.laws)(q_at, rest, valid)
  twin = jnp.zeros_like(valid)
  for k in range(K):
    twin |= (held == held[:, [k]]) & (np.arange(K) > k)[None]
  # True for a NaN, to show it.
  exists = valid & ~(jnp.diagonal(at, axis1=1, axis2=2) <= 0)
  return Families(
    tokens=held,
    fresh=valid & ~twin,
    p_at=jnp.where(valid, p[at_tokens], 0),
    laws=Law(scale=scale, at=at, exists=exists),
  )


def begin(families: Families, entry: jax.Array) -> jax.Array:
  """Returns entry * p, the residuals before any rejection: g [N, 4 + K].

  `entry` [N] is each node's probability to be entered.
  """
  numbers = jnp.stack([entry, jnp.zeros_like(entry), entry, 1 - entry], axis=1)
  return jnp.concatenate([numbers, entry[:, None] * families.p_at], axis=1)


def enter(g: jax.Array, families: Families, tree: Tree) -> jax.Array:
  """Returns min(1, g / q_j), each node's probability to be entered: [N].

  Valid only for nodes whose elder siblings were all rejected in g. The root's
  value is arbitrary.
  """
  parent, rank = tree.parent, tree.rank
  exists = families.laws.exists[parent, rank]
  q_at = families.laws.at[parent, rank, rank]
  chance = g[parent, AT + rank] / jnp.where(exists, q_at, 1)
  # A select keeps a NaN on every device; `minimum` does not.
  return jnp.where(exists, jnp.where(chance > 1, 1, chance), 0)


def reject(
  g: jax.Array, families: Families, draft: Draft, nodes, rank
) -> jax.Array:
  """Returns the rows of nodes [n] after the rejection of a child.

  Args:
    g: [N, 4 + K] The residuals before.
    families: The children of all nodes.
    draft: The drafted tree.
    nodes: [n] The nodes.
    rank: [n] The rank of each node's rejected child.
  """
  before = rows(g, nodes)
  law = jax.tree.map(lambda x: x[nodes, rank], families.laws)
  after = _shift(before, law)
  p, q, tokens = (rows(x, nodes) for x in (draft.p, draft.q, families.tokens))
  kept = _mass_off(after[:, ALPHA], after[:, BETA], p, q, tokens)
  # K - 1 additions instead of a sum: every reduction is a kernel on a GPU.
  at = jnp.where(rows(families.fresh, nodes), after[:, AT:], 0)
  kept += functools.reduce(operator.add, at.T)
  size = kept + before[:, DEFICIT]
  # If g = q_j, the division is 0 / 0. After several tiny divisors, alpha or
  # beta would overflow. Such rejections have probability 0, or almost 0, so g
  # may stay as it was. The conditions are written so that a NaN is passed on.
  divisor = jnp.where(size <= 0, 1, size)
  alpha, beta = after[:, ALPHA], after[:, BETA]
  factor = jnp.where(beta > alpha, beta, alpha) / divisor
  usable = law.exists & ~(size <= 0) & ~(factor > largest(g.dtype))
  after = after.at[:, MASS].set(kept) / divisor[:, None]
  after = jnp.where(usable[:, None], after, before)
  wide = families.tokens.shape[1] > _WIDE
  return jax.lax.optimization_barrier(after) if wide else after


def distribution(
  g: jax.Array, families: Families, draft: Draft, pending, node: jax.Array
) -> jax.Array:
  """Returns a node's residual [V] after all rejections, up to a factor.

  The last rejection of a node that is accepted if all its children are rejected
  needs no pass over a row: only the shape of the residual is used, not its
  mass.

  Args:
    g: [N, 4 + K] The residuals.
    families: The children of all nodes.
    draft: The drafted tree.
    pending: [N] Whether a node's last child is not rejected yet in g.
    node: [] The node.
  """
  last = jnp.asarray(np.maximum(draft.tree.num_children - 1, 0))[node]
  law = jax.tree.map(lambda x: x[node, last], families.laws)
  law = law._replace(exists=law.exists & jnp.asarray(pending)[node])
  own = _shift(g[node], law)
  p, q, tokens = draft.p[node], draft.q[node], families.tokens[node]
  # g / alpha is [p - beta / alpha q]_+ outside the tokens. If no child exists,
  # this is p to the last bit, and a leaf's row of q is not used.
  alpha = jnp.where(own[ALPHA] > 0, own[ALPHA], 1)
  ratio, limit = own[BETA] / alpha, largest(g.dtype)
  ratio = jnp.where(ratio > limit, limit, ratio)
  weights = positive(p - jnp.where(ratio > 0, ratio * q, 0))
  vocabulary = jnp.arange(len(p), dtype=jnp.int32)
  for token, value in zip(tokens, own[AT:] / alpha, strict=True):
    weights = jnp.where(vocabulary == token, value, weights)
  return weights


def positive(x: jax.Array) -> jax.Array:
  """Returns [x]_+ = max(x, 0), and NaN for NaN.

  On CPUs, XLA passes a sum of maxima to a library that computes max(NaN, 0) as
  0, so a fault would not be noticed. On GPUs a select may write a row to
  memory, which a maximum does not.
  """
  return jax.lax.platform_dependent(
    x,
    cpu=lambda x: jnp.where(x <= 0, 0, x),
    default=lambda x: jnp.maximum(x, 0),
  )


def rows(array: jax.Array, index: np.ndarray) -> jax.Array:
  """Returns array[index], as a slice if possible, which costs nothing."""
  index = index.astype(np.int32)  # the same program with and without x64
  if len(index) and np.array_equal(index, np.arange(index[0], index[-1] + 1)):
    return array[int(index[0]) : int(index[-1]) + 1]
  return array[index]


def _shift(g, law: Law):
  """Returns g - q_j [.., 4 + K], not divided; g if the child does not exist.

  The mass is not updated.
  """
  at = g[..., AT:] - law.at
  at = jnp.where(at <= 0, 0, at)
  beta = g[..., BETA] + law.scale
  shifted = jnp.concatenate(
    [g[..., :BETA], beta[..., None], g[..., MASS:AT], at], axis=-1
  )
  return jnp.where(law.exists[..., None], shifted, g)


def _mass_off(alpha, beta, p, q, tokens):
  """Sums [alpha p - beta q]_+ outside the tokens [n, K]: [n].

  This is a masked sum of terms that are not negative. Subtracting the tokens'
  terms from the whole sum would lose digits in float32, if one token has most
  of the mass.
  """
  terms = positive(alpha[:, None] * p - beta[:, None] * q)
  return jnp.sum(jnp.where(_holds(tokens, p.shape[1]), 0, terms), axis=1)


def _holds(tokens, V):
  """Returns [n, V], whether a token is among the tokens [n, K]."""
  vocabulary = jnp.arange(V, dtype=jnp.int32)[None]
  inside = jnp.zeros((len(tokens), V), bool)
  for token in tokens.T:  # K comparisons, which XLA fuses into a sum
    inside |= vocabulary == token[:, None]
  return inside
