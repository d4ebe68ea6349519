"""One step of verification at one node: entering and rejecting its children.

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
- 1 - sum(g) is carried as a separate number, `deficit`, and divided by the same
  divisor as g. So no step subtracts a sum from 1, which would lose digits.

All functions are for ONE node. The level-parallel form vmaps them, and the loop
calls them for one node after the other.

Axes: K children of a node, V vocabulary.
"""

import functools
import operator
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from tv_jax import proposals
from tv_jax.proposals import INVALID


def largest(dtype) -> float:
  """Returns the largest alpha and beta with which sums of rows are finite.

  Our proposals scale q by at most 1e31 in float32 (`proposals.exhausted`). To
  reach this limit, divisors must also be below 1e-6.
  """
  return float(jnp.finfo(dtype).max / 8)


class Law(NamedTuple):
  """The distribution q_j of a child."""

  scale: jax.Array  # [] q_j = scale * q outside the children's tokens
  at: jax.Array  # [K] q_j at the children's tokens
  exists: jax.Array  # [] whether the child exists, with q_j > 0 at its token


class Siblings(NamedTuple):
  """The children of a node, in draw order."""

  tokens: jax.Array  # [K] int32; INVALID as padding, or if none was drawn
  fresh: jax.Array  # [K] whether no elder sibling holds the same token
  p_at: jax.Array  # [K] target probabilities at the tokens
  laws: Law  # [K, ..] the distribution of each child


class Residual(NamedTuple):
  """g at one node: [alpha p - beta q]_+ outside the children's tokens."""

  alpha: jax.Array  # []
  beta: jax.Array  # []
  mass: jax.Array  # [] sum(g)
  deficit: jax.Array  # [] 1 - sum(g)
  at: jax.Array  # [K] g at the children's tokens


def siblings(proposal: proposals.Proposal, tokens, p_at, q_at, rest):
  """Makes the `Siblings` of a node.

  Args:
    proposal: How they were drawn.
    tokens: [K] Their tokens.
    p_at: [K] Target probabilities at the tokens.
    q_at: [K] Draft probabilities at the tokens.
    rest: [] Total draft probability outside the tokens.
  """
  valid = tokens != INVALID
  scale, at = proposal.laws(jnp.where(valid, q_at, 0), rest, valid)
  K = len(tokens)
  twin = jnp.zeros_like(valid)
  for i in range(K):
    twin |= (tokens == tokens[i]) & (np.arange(K) > i)
  exists = valid & ~(jnp.diagonal(at) <= 0)  # True for a NaN, to show it
  return Siblings(
    tokens=tokens,
    fresh=valid & ~twin,
    p_at=jnp.where(valid, p_at, 0),
    laws=Law(scale=scale, at=at, exists=exists),
  )


def begin(p_at: jax.Array, chance: jax.Array) -> Residual:
  """Returns the residual chance * p of a node before any child is rejected.

  Args:
    p_at: [K] Target probabilities at the children's tokens.
    chance: [] Probability to enter the node.
  """
  return Residual(
    alpha=chance,
    beta=jnp.zeros_like(chance),
    mass=chance,
    deficit=1 - chance,
    at=chance * p_at,
  )


def enter(g_at: jax.Array, law_at: jax.Array, exists: jax.Array) -> jax.Array:
  """Returns min(1, g / q_j), the probability to enter a child, if it exists."""
  chance = g_at / jnp.where(exists, law_at, 1)
  # A select keeps a NaN on every device; `minimum` does not.
  return jnp.where(exists, jnp.where(chance > 1, 1, chance), 0)


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


def shift(g: Residual, law: Law) -> Residual:
  """Returns [g - q_j]_+ without dividing it; g if the child does not exist.

  This suffices for the last rejection of a node that is accepted if all its
  children are rejected: only the shape of its residual is used, not its mass.
  """
  at = g.at - law.at
  return g._replace(
    beta=jnp.where(law.exists, g.beta + law.scale, g.beta),
    at=jnp.where(law.exists, jnp.where(at <= 0, 0, at), g.at),
  )


def reject(g: Residual, law: Law, fresh: jax.Array, mass_off) -> Residual:
  """Returns the residual after the rejection of a child.

  Args:
    g: The residual before.
    law: The distribution q_j of the child.
    fresh: [K] `Siblings.fresh`.
    mass_off: `(alpha, beta) -> []`: the function `mass_off` below, with the
      node's p, q and tokens bound.
  """
  shifted = shift(g, law)
  kept = mass_off(shifted.alpha, shifted.beta)
  # K - 1 additions instead of a sum: every reduction is a kernel on a GPU.
  kept += functools.reduce(operator.add, jnp.where(fresh, shifted.at, 0))
  size = kept + g.deficit
  # If g = q_j, the division is 0 / 0. After several tiny divisors, alpha or
  # beta would overflow. Such rejections have probability 0, or almost 0, so g
  # may stay as it was. The conditions are written so that a NaN is passed on.
  divisor = jnp.where(size <= 0, 1, size)
  most = jnp.where(shifted.beta > shifted.alpha, shifted.beta, shifted.alpha)
  factor = most / divisor
  usable = law.exists & ~(size <= 0) & ~(factor > largest(factor.dtype))
  after = Residual(
    alpha=shifted.alpha / divisor,
    beta=shifted.beta / divisor,
    mass=kept / divisor,
    deficit=g.deficit / divisor,
    at=shifted.at / divisor,
  )
  return jax.tree.map(lambda new, old: jnp.where(usable, new, old), after, g)


def mass_off(alpha, beta, p, q, tokens) -> jax.Array:
  """Sums [alpha p - beta q]_+ outside the tokens, in one pass over a row.

  This is a masked sum of terms that are not negative. Subtracting the tokens'
  terms from the whole sum would lose digits in float32, if one token has most
  of the mass.
  """
  vocabulary = jnp.arange(len(p), dtype=jnp.int32)
  inside = jnp.zeros_like(vocabulary, bool)
  for token in tokens:  # K comparisons, which XLA fuses into the sum
    inside |= vocabulary == token
  return jnp.sum(jnp.where(inside, 0, positive(alpha * p - beta * q)))


def write_out(g: Residual, tokens, p, q) -> jax.Array:
  """Returns g / alpha [V], which is [p - beta / alpha q]_+ outside the tokens.

  If no child exists, this is p to the last bit. A leaf's row of q, which may be
  arbitrary, is not used.
  """
  alpha = jnp.where(g.alpha > 0, g.alpha, 1)
  ratio, most = g.beta / alpha, largest(g.at.dtype)
  ratio = jnp.where(ratio > most, most, ratio)
  weights = positive(p - jnp.where(ratio > 0, ratio * q, 0))
  vocabulary = jnp.arange(len(p), dtype=jnp.int32)
  for token, value in zip(tokens, g.at / alpha, strict=True):
    weights = jnp.where(vocabulary == token, value, weights)
  return weights
