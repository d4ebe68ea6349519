"""Offers of a traced tree: one node after the other.

Nodes are visited in level order, so parents come before children and siblings
are in draw order. Each node is entered, and then rejected from its parent's
residual. The rejection takes a pass over a row of p and of q. If its result is
never read, the pass is skipped, but not under `vmap`.

Axes: N nodes, K children of a node, V vocabulary.
"""

import functools

import jax
import jax.numpy as jnp
import numpy as np

from tv_jax.proposals import Proposal
from tv_jax.tree import NO_CHILD, NO_PARENT, ROOT, Topology
from tv_jax.verifiers import family, residual
from tv_jax.verifiers.offers import Offers


def offers(
  tree: Topology, proposal: Proposal, tokens, q, p, *, inherits: bool
) -> Offers:
  """Computes the offers of a traced tree; `levels.py` has static trees.

  A node of the traversal inherits mass: it starts with its entry probability
  times p. In token-level verification (`inherits` is False) it starts with p.
  """
  siblings = family.gather(tree, proposal, tokens, q, p)
  parent, rank = jnp.asarray(tree.parent), jnp.asarray(tree.rank)
  children, N = jnp.asarray(tree.children), len(tokens)
  ranks = np.arange(children.shape[1], dtype=np.int32)
  one = jnp.ones((), p.dtype)

  def spared(node):  # whether nobody reads the mass after its last rejection
    return (node == ROOT) | (not inherits)

  def visit(node, state):
    g, entry = state
    above, own_rank = parent[node], rank[node]
    law = family.law_of(siblings, above, own_rank)
    law = law._replace(exists=law.exists & (above != NO_PARENT))
    before = family.unpack(g[above])
    chance = residual.enter(before.at[own_rank], law.at[own_rank], law.exists)
    last = ~jnp.any((children[above] != NO_CHILD) & (ranks > own_rank))
    # Below a node that is entered with probability 0, no node is offered.
    tried = law.exists & ~(spared(above) & last) & ~(before.alpha <= 0)

    def mass_off(alpha, beta):
      rows = p[above], q[above], siblings.tokens[above]
      return jax.lax.cond(
        tried,
        lambda: residual.mass_off(alpha, beta, *rows),
        lambda: jnp.zeros_like(alpha),
      )

    law = law._replace(exists=tried)
    after = residual.reject(before, law, siblings.fresh[above], mass_off)
    begun = residual.begin(siblings.p_at[node], chance if inherits else one)
    g = g.at[above].set(family.pack(after)).at[node].set(family.pack(begun))
    return g, entry.at[node].set(chance)

  start = jnp.zeros(N, p.dtype).at[ROOT].set(1)
  g = family.begin(siblings, np.arange(N), start)
  g, entry = jax.lax.fori_loop(1, N, visit, (g, start))
  return Offers(
    chance=family.unpack(g).mass if inherits else entry,
    offered=entry > 0,
    residual=functools.partial(
      family.residual_at, tree, siblings, g, q, p, spared
    ),
  )
