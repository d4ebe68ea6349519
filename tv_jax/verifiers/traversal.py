"""Traversal verification, with all nodes of a step in one batched operation.

Weng et al., "Traversal Verification for Speculative Tree Decoding" (NeurIPS
2025), Algorithm 3. Nodes are offered in post-order, children before parents. A
node starts with the residual g = entry * p, where `entry` is the probability to
enter it from its parent. Each rejected child changes g. The node is offered
after its children, with the mass of g as its acceptance probability. The first
node in post-order with eta < mass is accepted.

The residual of a node depends only on its entry, on the distributions and
tokens of its children, and on how many of them were rejected. It does not
depend on what happened below the children. So all computations over the
vocabulary depend on the draft alone, and are done before any coin is compared.
A node of rank r is entered once r children of its parent were rejected. It then
takes one pass over its rows of p and q for each child:

    start(v) = start(parent(v)) + rank(v),    pass j of v at step start(v) + j.

All passes of a step are a single operation. A chain takes one step at any
depth, the EAGLE tree four, and the binary tree of depth 5 six.

Axes: N nodes, K children of a node, V vocabulary.
"""

import functools

import jax.numpy as jnp
import numpy as np

from tv_jax.tree import ROOT, Tree
from tv_jax.verifiers import residual
from tv_jax.verifiers.base import Draft, Offers, Verifier
from tv_jax.verifiers.walk import UP


def offers(draft: Draft) -> Offers:
  """Computes the masses of all nodes after the rejection of their children."""
  tree, families = draft.tree, residual.gather(draft)
  start, nodes = _start(tree), np.arange(len(tree))
  # The mass after the root's last rejection is not needed.
  passes = tree.num_children - (nodes == ROOT)
  entry = jnp.asarray(nodes == ROOT, draft.p.dtype)
  g = residual.begin(families, entry)
  for step in range(start.max() + 1):
    for depth in range(1, tree.max_depth + 1):  # parents before first children
      entering = (start == step) & (tree.depth == depth)
      if entering.any():
        chance = residual.enter(g, families, tree)
        entry = jnp.where(entering, chance, entry)
        begun = residual.begin(families, entry)
        g = jnp.where(entering[:, None], begun, g)
    rejecting = np.flatnonzero((start <= step) & (step < start + passes))
    if len(rejecting):
      rank = step - start[rejecting]
      after = residual.reject(g, families, draft, rejecting, rank)
      g = g.at[rejecting].set(after)
  pending = nodes == ROOT  # only the root's last rejection
  return Offers(
    chance=g[:, residual.MASS],
    offered=entry > 0,
    residual=functools.partial(
      residual.distribution, g, families, draft, pending
    ),
  )


def _start(tree: Tree) -> np.ndarray:
  """Returns [N], the step of each node's first pass."""
  start = np.zeros(len(tree), np.int32)
  for node in range(1, len(tree)):
    start[node] = start[tree.parent[node]] + tree.rank[node]
  return start


RULE = Verifier(name="traversal", offers=offers, walk=UP, by_path=True)
