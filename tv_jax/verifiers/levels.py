"""The step at all nodes of a known tree, in few batched operations.

What a node's residual becomes depends only on the node's own start, its laws
and its children's tokens, never on what happened below the children. So
everything that is V-sized is a function of the tree alone, and can be had
before a coin is tossed. Where chances are carried down, a node of rank r can
start once its parent has lost r children, and then takes one pass over its rows
for each child of its own:

    time(v) = time(parent(v)) + rank(v),    pass j of v at time(v) + j.

All passes of one time are one batched operation, N - 2 row passes together. A
chain takes one step whatever its depth, the EAGLE tree four, the binary tree of
depth 5 six. Where all nodes start with p none waits for another.

Axes: N nodes, n of them at work in a step, K children of a node, V vocabulary.
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

# With more children than this XLA is kept from fusing one rejection into the
# next: it would repeat all earlier ones, over and over, for minutes.
_WIDE = 8


def offers(
  tree: Tree, proposal: Proposal, tokens, q, p, *, carried: bool
) -> Offers:
  """Returns what no coin changes.

  Args:
    tree: The tree.
    proposal: How siblings were drawn.
    tokens: [N]
    q: [N, V]
    p: [N, V]
    carried: Whether a node is entered with the chance to get there, and offered
      after its children with the mass that they leave; else it starts with p,
      and is offered with the chance to enter it.
  """
  N, number = len(tree), np.arange(len(tree))
  own = family.gather(tree, proposal, tokens, q, p)
  one = jnp.ones((), p.dtype)
  start, due = _times(tree, carried)
  passes = tree.num_children - (1 if not carried else number == ROOT)
  # All residuals that there ever are; in which of them each node's last is, and
  # in which row.
  history, last = [], np.zeros((N, 2), np.int32)

  def keep(which, g):
    last[which] = np.stack(
      [np.full(len(which), len(history)), np.arange(len(which))], axis=1
    )
    history.append(g)

  def residuals(which):
    order = by_place(which)
    own, row = last[which][order].T
    parts = [rows(history[one], row[own == one]) for one in np.unique(own)]
    return rows(jnp.concatenate(parts), np.argsort(order))

  def by_place(which):
    return np.lexsort(last[which].T[::-1])

  if not carried:
    keep(number, family.begin(own, number, jnp.broadcast_to(one, N)))
  nodes, entries = [], []
  for now in range(due.max() + 1):
    heads = np.flatnonzero(due == now)
    above, rank = tree.parent[heads], tree.rank[heads]
    if carried and not now:  # the root
      entry = one[None]
    else:
      law = family.law_of(own, above, rank)
      at = law.at[np.arange(len(heads)), rank]
      g_at = residuals(above)[np.arange(len(heads)), family.AT + rank]
      entry = residual.enter(g_at, at, law.exists)
    if carried:
      heads, entry = _with_first_born(tree, own, heads, entry)
      keep(heads, family.begin(own, heads, entry))
    nodes.append(heads)
    entries.append(entry)
    active = np.flatnonzero((start <= now) & (now < start + passes))
    if len(active):
      active = active[by_place(active)]  # which spares a gather
      lost = now - start[active]
      keep(active, _reject(own, residuals(active), active, lost, q, p))
  g = residuals(number)
  entry = family.spread(jnp.concatenate(entries), np.concatenate(nodes), N)
  return Offers(
    chance=family.unpack(g).mass if carried else entry,
    offered=entry > 0,
    residual=functools.partial(
      family.left, tree, own, g, q, p, lambda v: (v == ROOT) | (not carried)
    ),
  )


def _times(tree, carried):
  """[N] when each node's first pass is; when it is entered, -1 with its parent.

  A first child's start is its parent's where chances are carried.
  """
  if not carried:
    return np.zeros(len(tree), np.int32), np.where(tree.depth, tree.rank, -1)
  start = np.zeros(len(tree), np.int32)
  for node in range(1, len(tree)):
    start[node] = start[tree.parent[node]] + tree.rank[node]
  first_born = (tree.rank == 0) & (tree.depth > 0)
  return start, np.where(first_born, -1, start)


def _with_first_born(tree, own, heads, entry):
  """Nodes, their first children, the first children of these, and so on.

  A first child's family is fresh, g = chance p, and so no residual is asked.
  """
  columns, chances = [heads], [entry]
  while len(inner := np.flatnonzero(tree.num_children[columns[-1]])):
    above = columns[-1][inner]
    columns.append(tree.children[above, 0])
    law = family.law_of(own, above, 0)
    g_at = rows(chances[-1], inner) * own.p_at[above, 0]
    chances.append(residual.enter(g_at, law.at[:, 0], law.exists))
  return np.concatenate(columns), jnp.concatenate(chances)


def _reject(own, g, which, lost, q, p):
  """[n, 4 + K] the residuals g of nodes `which` after child `lost` of each."""

  def one(g, law, fresh, tokens, q, p):
    off = functools.partial(residual.mass_off, p=p, q=q, tokens=tokens)
    return family.pack(residual.reject(family.unpack(g), law, fresh, off))

  given = (rows(array, which) for array in (own.fresh, own.tokens, q, p))
  after = jax.vmap(one)(g, family.law_of(own, which, lost), *given)
  if own.tokens.shape[1] > _WIDE:
    after = jax.lax.optimization_barrier(after)
  return after
