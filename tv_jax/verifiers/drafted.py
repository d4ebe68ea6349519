"""A draft as a walk over one node at a time reads it: what the loops share.

Axes: N nodes, K children of a node, V vocabulary.
"""

from typing import NamedTuple

import jax
import jax.numpy as jnp

from tv_jax import proposals
from tv_jax.proposals import INVALID
from tv_jax.tree import NO_CHILD, Topology, Tree
from tv_jax.verifiers import residual


class Draft(NamedTuple):
  """The tree, and the numbers at the drafted tokens."""

  topology: Topology
  tokens: jax.Array  # [N, K] of the children; INVALID where there is none
  p_at: jax.Array  # [N, K] the parent's target law at them
  q_at: jax.Array  # [N, K] the parent's base draft law at them
  q: jax.Array  # [N, V]
  p: jax.Array  # [N, V]


def gather(tree: Tree | Topology, tokens, q, p) -> Draft:
  """The draft over a tree, known or traced."""
  topology = tree.topology() if isinstance(tree, Tree) else tree
  topology = jax.tree.map(jnp.asarray, topology)
  absent = topology.children == NO_CHILD
  drawn = jnp.where(absent, INVALID, tokens[jnp.maximum(topology.children, 0)])
  node = jnp.arange(len(drawn), dtype=jnp.int32)[:, None]
  place = jnp.maximum(drawn, 0)
  return Draft(topology, drawn, p[node, place], q[node, place], q, p)


def family(draft: Draft, proposal, node, rest) -> residual.Siblings:
  """The children of one node."""
  return residual.siblings(
    proposal, draft.tokens[node], draft.p_at[node], draft.q_at[node], rest
  )


def child_law(own: residual.Siblings, child) -> residual.Law:
  """What one child was drawn from."""
  return jax.tree.map(lambda x: x[child], own.laws)


def enter(g: residual.Residual, own: residual.Siblings, child) -> jax.Array:
  """[] the chance to enter a child."""
  law = child_law(own, child)
  return residual.enter(g.at[child], law.at[child], law.exists)


def rest(draft: Draft, proposal: proposals.Proposal, node, child, known):
  """[] the mass of q off the children of `node`; summed when first needed.

  That is when the walk looks at the first child whose law depends on it:
  before, the value is of no consequence, and afterwards it is `known`.
  """
  if draft.tokens.shape[1] <= proposal.rest_from:
    return known
  first = draft.topology.children[node, proposal.rest_from] != NO_CHILD
  one, zero = jnp.ones_like(known), jnp.zeros_like(known)
  return jax.lax.cond(
    first & (child == proposal.rest_from),
    lambda: residual.mass_off(
      one, zero, draft.q[node], draft.q[node], draft.tokens[node]
    ),
    lambda: known,
  )


def reject(draft: Draft, g, own, node, child, spared) -> residual.Residual:
  """The residual of `node` after the rejection of one child.

  Args:
    draft: The draft.
    g: The residual before.
    own: The family.
    node: [] the parent.
    child: [] the rank of the rejected child.
    spared: [] whether the mass no longer matters, which saves the pass.
  """
  law = child_law(own, child)
  shifted = residual.shift(g, law)

  def rescaled():
    p_row, q_row = draft.p[node], draft.q[node]
    off = residual.mass_off(
      shifted.alpha, shifted.beta, p_row, q_row, own.tokens
    )
    return residual.rescale(g, shifted, law, own.fresh, off)

  return jax.lax.cond(spared, lambda: shifted, rescaled)
