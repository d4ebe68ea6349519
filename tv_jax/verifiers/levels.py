"""Offers of a static tree: all nodes of a step in one batched operation.

The residual of a node depends only on the node's start, on the distributions
and tokens of its children, and on how many of them were rejected. It does not
depend on what happened below the children. So all computations over the
vocabulary are functions of the tree alone, and can be done before any coin is
compared.

In the traversal, a node of rank r starts once its parent has lost r children.
It then takes one pass over its rows of p and q for each child:

    start(v) = start(parent(v)) + rank(v),    pass j of v at step start(v) + j.

All passes of a step are a single batched operation. There are N - 2 row passes
in total. A chain takes one step at any depth, the EAGLE tree four, and the
binary tree of depth 5 six. In token-level verification all nodes start at step
0.

Axes: N nodes, n nodes of a step, K children of a node, V vocabulary.
"""

import functools

import jax
import jax.numpy as jnp
import numpy as np

from tv_jax.proposals import Proposal
from tv_jax.tree import ROOT, Tree
from tv_jax.verifiers import family, residual
from tv_jax.verifiers.family import rows
from tv_jax.verifiers.offers import Offers
from tv_jax.verifiers.residual import Siblings

# Beyond this number of children, XLA is kept from fusing successive rejections.
# A fused rejection would compute all earlier ones again, and compiling it would
# take minutes.
_WIDE = 8


def traversal_offers(tree: Tree, proposal: Proposal, tokens, q, p) -> Offers:
  """Computes the offers of the traversal: nodes inherit mass from their parent.

  A node starts with its entry probability times p. It is offered after its
  children, with the mass that their rejections leave.
  """
  siblings = family.gather(tree, proposal, tokens, q, p)
  start, passes = _start(tree), tree.num_children - (tree.depth == 0)
  history, heads, entries = _History(len(tree)), [], []
  for step in range(start.max() + 1):
    head, entry = np.array([ROOT]), jnp.ones(1, p.dtype)
    if step:
      head = np.flatnonzero((start == step) & (tree.rank > 0))
      entry = _entry(tree, siblings, history, head)
    # First children are entered together with their parents.
    head, entry = _with_first_born(tree, siblings, head, entry)
    history.add(head, family.begin(siblings, head, entry))
    heads.append(head)
    entries.append(entry)
    _reject_at(step, start, passes, siblings, history, q, p)
  entry = family.spread(
    jnp.concatenate(entries), np.concatenate(heads), len(tree)
  )
  g = history.latest(np.arange(len(tree)))
  return Offers(
    chance=family.unpack(g).mass,
    offered=entry > 0,
    residual=functools.partial(
      family.residual_at, tree, siblings, g, q, p, lambda node: node == ROOT
    ),
  )


def token_level_offers(tree: Tree, proposal: Proposal, tokens, q, p) -> Offers:
  """Computes the offers of token-level verification: every node starts with p.

  A node is offered with its entry probability.
  """
  N, nodes = len(tree), np.arange(len(tree))
  siblings = family.gather(tree, proposal, tokens, q, p)
  start, passes = np.zeros(N, np.int32), tree.num_children - 1
  history, heads, entries = _History(N), [], []
  one = jnp.broadcast_to(jnp.ones((), p.dtype), N)
  history.add(nodes, family.begin(siblings, nodes, one))
  for step in range(tree.max_children):
    head = np.flatnonzero((tree.rank == step) & (tree.depth > 0))
    heads.append(head)
    entries.append(_entry(tree, siblings, history, head))
    _reject_at(step, start, passes, siblings, history, q, p)
  entry = family.spread(jnp.concatenate(entries), np.concatenate(heads), N)
  return Offers(
    chance=entry,
    offered=entry > 0,
    residual=functools.partial(
      family.residual_at,
      tree,
      siblings,
      history.latest(nodes),
      q,
      p,
      lambda node: True,
    ),
  )


class _History:
  """All residuals computed so far, with the latest one of each node."""

  def __init__(self, count: int):
    self.steps: list[jax.Array] = []  # [n, 4 + K] residuals of each step
    self.last = np.zeros((count, 2), np.int32)  # step and row of the latest

  def add(self, nodes, g):
    """Adds the residuals g of these nodes."""
    step = np.full(len(nodes), len(self.steps))
    self.last[nodes] = np.stack([step, np.arange(len(nodes))], axis=1)
    self.steps.append(g)

  def in_order(self, nodes):
    """Sorts nodes by where their latest residuals are stored."""
    return nodes[np.lexsort(self.last[nodes].T[::-1])]

  def latest(self, nodes):
    """Returns the latest residuals [n, 4 + K] of these nodes."""
    order = np.lexsort(self.last[nodes].T[::-1])
    step, row = self.last[nodes][order].T
    parts = [rows(self.steps[i], row[step == i]) for i in np.unique(step)]
    return rows(jnp.concatenate(parts), np.argsort(order))


def _start(tree: Tree) -> np.ndarray:
  """Returns [N], the step of each node's first pass in the traversal."""
  start = np.zeros(len(tree), np.int32)
  for node in range(1, len(tree)):
    start[node] = start[tree.parent[node]] + tree.rank[node]
  return start


def _entry(tree: Tree, siblings: Siblings, history: _History, nodes):
  """Returns the probabilities [n] to enter nodes, from their parents."""
  above, rank = tree.parent[nodes], tree.rank[nodes]
  law, place = family.law_of(siblings, above, rank), np.arange(len(nodes))
  g_at = history.latest(above)[place, family.AT + rank]
  return residual.enter(g_at, law.at[place, rank], law.exists)


def _with_first_born(tree: Tree, siblings: Siblings, nodes, entry):
  """Adds first children, their first children and so on: nodes and entries.

  The parent of a first child has lost no child yet. Its residual is its entry
  times p, which is known without a pass.
  """
  generations, entries = [nodes], [entry]
  while len(inner := np.flatnonzero(tree.num_children[generations[-1]])):
    above = generations[-1][inner]
    generations.append(tree.children[above, 0])
    law = family.law_of(siblings, above, 0)
    g_at = rows(entries[-1], inner) * siblings.p_at[above, 0]
    entries.append(residual.enter(g_at, law.at[:, 0], law.exists))
  return np.concatenate(generations), jnp.concatenate(entries)


def _reject_at(step, start, passes, siblings, history: _History, q, p) -> None:
  """Adds the residuals after the rejections of a step."""
  nodes = np.flatnonzero((start <= step) & (step < start + passes))
  if not len(nodes):
    return
  nodes = history.in_order(nodes)  # so that they are a slice, without a gather

  def reject(g, law, fresh, tokens, q, p):
    off = functools.partial(residual.mass_off, p=p, q=q, tokens=tokens)
    return family.pack(residual.reject(family.unpack(g), law, fresh, off))

  laws = family.law_of(siblings, nodes, step - start[nodes])
  arrays = siblings.fresh, siblings.tokens, q, p
  after = jax.vmap(reject)(
    history.latest(nodes), laws, *(rows(array, nodes) for array in arrays)
  )
  if siblings.tokens.shape[1] > _WIDE:
    after = jax.lax.optimization_barrier(after)
  history.add(nodes, after)
