"""Token-level verification: recursive rejection sampling, from the root down.

RRS and RRSw by proposal (the paper's Algorithm 2; SpecInfer, EAGLE, Sequoia);
on a chain it is vanilla speculative decoding (Algorithm 1). All families of the
tree at once; `token_level_loop.py` walks one path.

Axes: N nodes, M nodes that have children, K children of a node, V vocabulary.

Every node starts with g = p, so no family waits for another: child j of all
families is one batched operation, and the last rejection of a family needs no
pass. What is left is arithmetic on N scalars: a node is reached when it and all
above it are the first of their siblings with eta < entry.
"""

from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from tv_jax import proposals
from tv_jax.tree import ROOT, Tree
from tv_jax.verifiers import family, residual
from tv_jax.verifiers.decision import NOT_OFFERED, Decision, conclude


class _Offers(NamedTuple):
  """Everything that no coin changes."""

  children: residual.Siblings  # [M, ..]
  g: residual.Residual  # [M, ..] after all children were rejected
  entry: jax.Array  # [N] the chance to enter a node once it is offered
  exists: jax.Array  # [N] whether it can be offered
  fault: jax.Array  # []


def _offers(tree, proposal, tokens, q, p) -> _Offers:
  parents = family.parents_of(tree)
  sizes = tree.num_children[parents]
  children = family.gather(tree, proposal, tokens, q, p)
  g = jax.vmap(residual.begin)(children.p_at, jnp.ones(len(parents), p.dtype))
  entry = jnp.zeros(len(tree), p.dtype)
  exists = jnp.zeros(len(tree), bool)
  for j in range(tree.children.shape[1]):
    active = np.flatnonzero(sizes > j)
    own_g, own = family.take((g, children), active)
    entered = jax.vmap(lambda g, own, j=j: residual.entry(g, own, j))(
      own_g, own
    )
    nodes = tree.children[parents[active], j]
    entry, exists = family.put(
      (entry, exists), nodes, (entered, own.exists[:, j])
    )
    last = np.flatnonzero(sizes == j + 1)
    g = family.reject_last(children, g, last, np.full(len(last), j))
    if len(more := np.flatnonzero(sizes > j + 1)):
      lost = np.full(len(more), j)
      g = family.reject(tree, children, g, more, lost, q, p)
  fault = jnp.any(jnp.isnan(entry)) | jnp.any(jnp.isnan(g.mass))
  return _Offers(children, g, entry, exists, fault)


def decide(
  tree: Tree,
  proposal: proposals.Proposal,
  tokens: jax.Array,
  q: jax.Array,
  p: jax.Array,
  eta: jax.Array,
) -> Decision:
  """See `decision.Verifier`."""
  offers = _offers(tree, proposal, tokens, q, p)
  hit = offers.exists & (eta < offers.entry)
  elder_hit = jnp.any(_elders(tree) & hit[None, :], axis=1)
  chosen = (np.arange(len(tree)) == ROOT) | (hit & ~elder_hit)
  reached = jnp.all(chosen[None, :] | ~tree.ancestors, axis=1)
  node = jnp.argmax(jnp.where(reached, tree.depth, -1))
  above = jnp.concatenate([jnp.zeros(1, bool), reached[tree.parent[1:]]])
  offered = above & offers.exists & ~elder_hit
  own_tokens, own_g = family.at_node(tree, offers.children, offers.g, node)
  return conclude(
    node=node,
    g=own_g,
    tokens=own_tokens,
    q=q,
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
  offers = _offers(tree, proposal, tokens, q, p)
  entry = jnp.where(offers.fault, 0, offers.entry)
  missed = jnp.where(_elders(tree), 1 - entry[None, :], 1).prod(axis=1)
  step = jnp.where(np.arange(len(tree)) == ROOT, 1, entry * missed)
  reached = jnp.where(tree.ancestors, step[None, :], 1).prod(axis=1)
  below = tree.parent[None, :] == np.arange(len(tree))[:, None]
  return reached * jnp.where(below, 1 - entry[None, :], 1).prod(axis=1)


def _elders(tree):
  """[N, N] whether the second is an elder sibling of the first."""
  same = tree.parent[:, None] == tree.parent[None, :]
  return same & (tree.rank[None, :] < tree.rank[:, None])
