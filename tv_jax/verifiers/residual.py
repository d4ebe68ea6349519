"""One step at one node: what every rule here is made of.

Axes: K children of a node, V vocabulary. All functions are for ONE node; the
level-parallel forms vmap them, the loop forms call them as they are.

A node carries a sub-probability g over the vocabulary: its mass is the chance
that the node is accepted, its shape the law of the bonus token there. Child j,
drawn from q_j as t_j, is tried with chance min(1, g(t_j) / q_j(t_j)); when it
and all below it were rejected,

    g <- [g - q_j]_+ / (sum [g - q_j]_+ + 1 - sum g)

which is (e1) and (e3) of the paper at once; the divisor is sum [q_j - g]_+
because q_j sums to 1. Two things make this cheap and safe:

- q_j is a multiple of q off the children's tokens, so there g stays of the
  form [alpha p - beta q]_+ for ever: two numbers, and K values on the tokens.
- What g lacks to mass 1 is carried as a number of its own (`deficit`): it is
  divided by what g is divided by, so that nothing here is 1 minus a sum.
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
  """Returns what alpha and beta must stay below: so sums of rows are finite.

  No proposal scales q by more than 1e31 in float32 (`proposals.exhausted`), so
  that only what has a chance below 1e-6 of being reached comes near.
  """
  return float(jnp.finfo(dtype).max / 8)


class Law(NamedTuple):
  """The law q_j that one child was drawn from."""

  scale: jax.Array  # [] q_j = scale * q off the children's tokens
  at: jax.Array  # [K] q_j at the children's tokens
  exists: jax.Array  # [] whether the child can have been drawn


class Siblings(NamedTuple):
  """The children of one node as they were drawn."""

  tokens: jax.Array  # [K] int32; INVALID where there is no child
  fresh: jax.Array  # [K] whether it exists and no elder holds the same token
  p_at: jax.Array  # [K] the target's law at the tokens
  laws: Law  # [K, ..] of each child


class Residual(NamedTuple):
  """g at one node: [alpha p - beta q]_+ off the children's tokens."""

  alpha: jax.Array  # []
  beta: jax.Array  # []
  mass: jax.Array  # [] sum(g)
  deficit: jax.Array  # [] 1 - sum(g)
  at: jax.Array  # [K] g on the children's tokens


def siblings(proposal: proposals.Proposal, tokens, p_at, q_at, rest):
  """Makes the `Siblings` of these tokens [K], laws at them [K], and rest []."""
  valid = tokens != INVALID
  scale, at = proposal.laws(jnp.where(valid, q_at, 0), rest, valid)
  K = len(tokens)
  twin = jnp.zeros_like(valid)
  for i in range(K):
    twin |= (tokens == tokens[i]) & (np.arange(K) > i)
  exists = valid & ~(jnp.diagonal(at) <= 0)  # a NaN must show, not hide
  return Siblings(
    tokens=tokens,
    fresh=valid & ~twin,
    p_at=jnp.where(valid, p_at, 0),
    laws=Law(scale=scale, at=at, exists=exists),
  )


def begin(p_at: jax.Array, chance: jax.Array) -> Residual:
  """Returns chance times p: a node entered with `chance`, no child tried yet.

  Args:
    p_at: [K] the target's law at the children's tokens.
    chance: [] the chance with which the node was entered.
  """
  return Residual(
    alpha=chance,
    beta=jnp.zeros_like(chance),
    mass=chance,
    deficit=1 - chance,
    at=chance * p_at,
  )


def enter(g_at: jax.Array, law_at: jax.Array, exists: jax.Array) -> jax.Array:
  """Returns the chance to enter a child, min(1, g / q_j); 0 for none."""
  chance = g_at / jnp.where(exists, law_at, 1)
  # Selects keep a NaN, which the least of two numbers does not on every chip.
  return jnp.where(exists, jnp.where(chance > 1, 1, chance), 0)


def positive(x: jax.Array) -> jax.Array:
  """Returns [x]_+, and NaN for NaN.

  On CPUs XLA hands the sum of a maximum to a library whose maximum of NaN and 0
  is 0: a fault would go unseen. A select, on GPUs, may leave a row in memory.
  """
  return jax.lax.platform_dependent(
    x,
    cpu=lambda x: jnp.where(x <= 0, 0, x),
    default=lambda x: jnp.maximum(x, 0),
  )


def shift(g: Residual, law: Law) -> Residual:
  """Returns [g - q_j]_+, not rescaled; g itself if there is no such child.

  All that is needed after the last rejection of a node that is accepted by
  construction: the shape is right, the mass no longer matters.
  """
  at = g.at - law.at
  return g._replace(
    beta=jnp.where(law.exists, g.beta + law.scale, g.beta),
    at=jnp.where(law.exists, jnp.where(at <= 0, 0, at), g.at),
  )


def reject(g: Residual, law: Law, fresh: jax.Array, mass_off) -> Residual:
  """Returns the residual after the rejection of a child.

  Args:
    g: Before it.
    law: What the child was drawn from.
    fresh: [K] of the family.
    mass_off: `(alpha, beta) -> []`: the function below, of the node's rows.
  """
  shifted = shift(g, law)
  kept = mass_off(shifted.alpha, shifted.beta)
  # K - 1 additions: a GPU gives every reduction a kernel of its own.
  kept += functools.reduce(operator.add, jnp.where(fresh, shifted.at, 0))
  size = kept + g.deficit
  # g = q_j leaves 0 / 0, and a chain of tiny sizes would overflow: both only
  # after rejections that had no chance, or next to none. g stays as it was.
  # Conditions are put so that a NaN passes on and is seen at the end.
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
  """Sums [alpha p - beta q]_+ off the tokens: one pass over a row.

  A masked sum of terms none of which is negative: to take a whole sum and
  subtract the tokens' part would lose what is left in float32 whenever one
  token holds most of the mass.
  """
  vocabulary = jnp.arange(len(p), dtype=jnp.int32)
  inside = jnp.zeros_like(vocabulary, bool)
  for token in tokens:  # K compares, fused into the sum
    inside |= vocabulary == token
  return jnp.sum(jnp.where(inside, 0, positive(alpha * p - beta * q)))


def write_out(g: Residual, tokens, p, q) -> jax.Array:
  """Writes out g / alpha [V], which is [p - ratio q]_+ off the tokens.

  So an untouched node's law is p to the last bit, and a leaf's row of q, which
  need not hold anything, has no say.
  """
  alpha = jnp.where(g.alpha > 0, g.alpha, 1)
  ratio, most = g.beta / alpha, largest(g.at.dtype)
  ratio = jnp.where(ratio > most, most, ratio)
  weights = positive(p - jnp.where(ratio > 0, ratio * q, 0))
  vocabulary = jnp.arange(len(p), dtype=jnp.int32)
  for token, value in zip(tokens, g.at / alpha, strict=True):
    weights = jnp.where(vocabulary == token, value, weights)
  return weights
