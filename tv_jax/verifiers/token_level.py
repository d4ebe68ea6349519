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
from tv_jax.tree import Tree
from tv_jax.verifiers import down, family, residual
from tv_jax.verifiers.decision import NOT_OFFERED, Decision, conclude


class _Offers(NamedTuple):
  """Everything that no coin changes."""

  children: residual.Siblings  # [M, ..]
  g: jax.Array  # [M, 4 + K] after all rejections but each family's last
  entry: jax.Array  # [N] the chance to enter a node once it is offered
  exists: jax.Array  # [N] whether it can be offered
  fault: jax.Array  # []


def _offers(tree, proposal, tokens, q, p) -> _Offers:
  parents, family_of = tree.inner, tree.family
  sizes = tree.num_children[parents]
  children = family.gather(tree, proposal, tokens, q, p)
  active = np.arange(len(parents), dtype=np.int32)
  g = family.begin(children, active, jnp.ones(len(parents), p.dtype))
  # All residuals that there ever are, and the last place of each family's.
  history, length, final = [g], len(parents), active.copy()
  nodes, entries = [], []
  for j in range(tree.children.shape[1]):
    nodes.append(tree.children[parents[active], j])
    rank = np.full(len(active), j, np.int32)
    own = np.arange(len(active), dtype=np.int32)
    entries.append(family.enter(children, g, own, active, rank))
    more = sizes[active] > j + 1
    if more.any():
      active, rank = active[more], rank[more]
      g = family.rows(g, np.flatnonzero(more))
      g = family.reject(tree, children, g, active, rank, q, p)
      history.append(g)
      final[active] = length + np.arange(len(g))
      length += len(g)
  nodes = np.concatenate(nodes)
  entry = family.spread(jnp.concatenate(entries), nodes, len(tree))
  which = family_of[tree.parent[1:]]
  exists = children.laws.exists[which, tree.rank[1:]]
  g = family.rows(jnp.concatenate(history), final)
  broken = jnp.any(jnp.isnan(entry)) | jnp.any(jnp.isnan(family.mass_of(g)))
  return _Offers(
    children=children,
    g=g,
    entry=entry,
    exists=jnp.concatenate([jnp.zeros(1, bool), exists]),
    fault=broken,
  )


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
  node, offered = down.walk(tree, offers.entry, offers.exists, eta)
  own_tokens, own_g = family.at_node(
    tree, offers.children, offers.g, node, spared=True
  )
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
  return down.stop_law(tree, entry)
