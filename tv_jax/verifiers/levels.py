"""Offers of a tree: all nodes of a step in one batched operation.

The residual of a node depends only on the probability to enter the node, on the
distributions and tokens of its children, and on how many of them were rejected.
It does not depend on what happened below the children. So all computations over
the vocabulary depend on the draft alone, and can be done before any coin is
compared.

In the traversal, a node of rank r starts once its parent has lost r children.
It then takes one pass over its rows of p and q for each child:

    start(v) = start(parent(v)) + rank(v),    pass j of v at step start(v) + j.

All passes of a step are a single batched operation. Each node is rejected in
one row pass, except the root, and the root's last child, whose rejection needs
no mass. A chain takes one step at any depth, the EAGLE tree four, and the
binary tree of depth 5 six. In token-level verification all nodes start at step
0.

Axes: N nodes, n nodes of a step, K children of a node, V vocabulary.
"""

import functools

import jax
import jax.numpy as jnp
import numpy as np

from tv_jax.tree import ROOT, Tree
from tv_jax.verifiers import family, residual
from tv_jax.verifiers.base import Draft, Offers
from tv_jax.verifiers.family import rows

# Beyond this number of children, XLA is kept from fusing successive rejections.
# A fused rejection would compute all earlier ones again, and compiling it would
# take minutes.
_WIDE = 8


def traversal_offers(draft: Draft) -> Offers:
  """Computes the offers of the traversal: nodes inherit mass from their parent.

  A node starts with its entry probability times p. It is offered after its
  children, with the mass that their rejections leave.
  """
  tree, residuals = draft.tree, _Residuals(draft)
  # The mass after the root's last rejection is not needed.
  start, passes = _start(tree), tree.num_children - (tree.depth == 0)
  heads, entries = [], []
  for step in range(start.max() + 1):
    head, entry = np.array([ROOT]), jnp.ones(1, draft.p.dtype)
    if step:
      head = np.flatnonzero((start == step) & (tree.rank > 0))
      entry = residuals.enter(head)
    # First children are entered together with their parents.
    head, entry = residuals.with_first_children(head, entry)
    residuals.begin(head, entry)
    heads.append(head)
    entries.append(entry)
    rejecting = (start <= step) & (step < start + passes)
    residuals.reject(np.flatnonzero(rejecting), step - start)
  entry = family.spread(
    jnp.concatenate(entries), np.concatenate(heads), len(tree)
  )
  g = residuals.latest(np.arange(len(tree)))
  return Offers(
    chance=family.unpack(g).mass,
    offered=entry > 0,
    residual=residuals.after(g, lambda node: node == ROOT),
  )


def token_level_offers(draft: Draft) -> Offers:
  """Computes the offers of token-level verification: every node starts with p.

  A node is offered with its entry probability.
  """
  tree, N = draft.tree, len(draft.tree)
  nodes, residuals = np.arange(N), _Residuals(draft)
  residuals.begin(nodes, jnp.broadcast_to(jnp.ones((), draft.p.dtype), N))
  heads, entries = [], []
  for step in range(tree.max_children):
    head = np.flatnonzero((tree.rank == step) & (tree.depth > 0))
    heads.append(head)
    entries.append(residuals.enter(head))
    rejecting = step < tree.num_children - 1
    residuals.reject(np.flatnonzero(rejecting), np.full(N, step, np.int32))
  entry = family.spread(jnp.concatenate(entries), np.concatenate(heads), N)
  return Offers(
    chance=entry,
    offered=entry > 0,
    residual=residuals.after(residuals.latest(nodes), lambda node: True),
  )


class _Residuals:
  """The residuals of all nodes, while they are computed step by step.

  A node is first begun, then enters and rejects its children in draw order.
  """

  def __init__(self, draft: Draft):
    self.draft, self.tree = draft, draft.tree
    self.siblings = family.gather(draft)
    # [n, 4 + K] each batch of residuals, in the order of computation
    self.batches: list[jax.Array] = []
    # [N, 2] batch and row of each node's latest residual
    self.last = np.zeros((len(self.tree), 2), np.int32)

  def begin(self, nodes, chance) -> None:
    """Starts nodes that are entered with `chance` [n]."""
    self._add(nodes, family.begin(self.siblings, nodes, chance))

  def enter(self, nodes) -> jax.Array:
    """Returns the probabilities [n] to enter nodes, from their parents."""
    above, rank = self.tree.parent[nodes], self.tree.rank[nodes]
    law = family.law_of(self.siblings, above, rank)
    place = np.arange(len(nodes))
    g_at = self.latest(above)[place, family.AT + rank]
    return residual.enter(g_at, law.at[place, rank], law.exists)

  def with_first_children(self, nodes, entry):
    """Returns the nodes with all first children below them, and all entries.

    The parent of a first child has lost no child yet. Its residual is its entry
    times p, which is known without a pass.
    """
    tree, generations, entries = self.tree, [nodes], [entry]
    while len(inner := np.flatnonzero(tree.num_children[generations[-1]])):
      above = generations[-1][inner]
      generations.append(tree.children[above, 0])
      law = family.law_of(self.siblings, above, 0)
      g_at = rows(entries[-1], inner) * self.siblings.p_at[above, 0]
      entries.append(residual.enter(g_at, law.at[:, 0], law.exists))
    return np.concatenate(generations), jnp.concatenate(entries)

  def reject(self, nodes, rank) -> None:
    """Rejects one child of each of these nodes, of rank `rank[node]`."""
    if not len(nodes):
      return
    # In the order of their latest residuals, which are then a slice.
    nodes = nodes[np.lexsort(self.last[nodes].T[::-1])]

    def reject(g, law, fresh, tokens, q, p):
      off = functools.partial(residual.mass_off, p=p, q=q, tokens=tokens)
      return family.pack(residual.reject(family.unpack(g), law, fresh, off))

    laws = family.law_of(self.siblings, nodes, rank[nodes])
    arrays = (
      self.siblings.fresh,
      self.siblings.tokens,
      self.draft.q,
      self.draft.p,
    )
    after = jax.vmap(reject)(
      self.latest(nodes), laws, *(rows(array, nodes) for array in arrays)
    )
    if self.tree.max_children > _WIDE:
      after = jax.lax.optimization_barrier(after)
    self._add(nodes, after)

  def latest(self, nodes) -> jax.Array:
    """Returns the latest residuals [n, 4 + K] of these nodes."""
    order = np.lexsort(self.last[nodes].T[::-1])
    batch, row = self.last[nodes][order].T
    parts = [rows(self.batches[i], row[batch == i]) for i in np.unique(batch)]
    return rows(jnp.concatenate(parts), np.argsort(order))

  def after(self, g, spared):
    """Returns `Offers.residual`; see `family.residual_at`."""
    return functools.partial(
      family.residual_at, self.draft, self.siblings, g, spared
    )

  def _add(self, nodes, g) -> None:
    batch = np.full(len(nodes), len(self.batches))
    self.last[nodes] = np.stack([batch, np.arange(len(nodes))], axis=1)
    self.batches.append(g)


def _start(tree: Tree) -> np.ndarray:
  """Returns [N], the step of each node's first pass in the traversal."""
  start = np.zeros(len(tree), np.int32)
  for node in range(1, len(tree)):
    start[node] = start[tree.parent[node]] + tree.rank[node]
  return start
