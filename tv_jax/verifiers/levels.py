"""The step at all nodes of a known tree, in few batched operations.

What a node's residual becomes depends only on the node's own start, its laws
and its children's tokens, never on what happened below the children. So
everything that is V-sized is a function of the tree alone, and can be had
before a coin is tossed. Where nodes inherit their mass, a node of rank r can
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
  tree: Tree, proposal: Proposal, tokens, q, p, *, inherits: bool
) -> Offers:
  """Returns what no coin changes.

  Args:
    tree: The tree.
    proposal: How siblings were drawn.
    tokens: [N]
    q: [N, V]
    p: [N, V]
    inherits: Whether a node starts with its entry times p, and is offered after
      its children with the mass that they leave. If not it starts with p, and
      is offered with its entry.
  """
  N, nodes = len(tree), np.arange(len(tree))
  siblings = family.gather(tree, proposal, tokens, q, p)
  one = jnp.ones((), p.dtype)
  start, entered = _times(tree, inherits)
  passes = tree.num_children - ((nodes == ROOT) if inherits else 1)
  history = _History(N)
  if not inherits:
    begun = family.begin(siblings, nodes, jnp.broadcast_to(one, N))
    history.add(nodes, begun)
  heads, entries = [], []
  for now in range(entered.max() + 1):
    head = np.flatnonzero(entered == now)
    above, rank = tree.parent[head], tree.rank[head]
    if inherits and not now:
      entry = one[None]  # of the root
    else:
      law = family.law_of(siblings, above, rank)
      place = np.arange(len(head))
      g_at = history.latest(above)[place, family.AT + rank]
      entry = residual.enter(g_at, law.at[place, rank], law.exists)
    if inherits:
      head, entry = _with_first_born(tree, siblings, head, entry)
      history.add(head, family.begin(siblings, head, entry))
    heads.append(head)
    entries.append(entry)
    active = np.flatnonzero((start <= now) & (now < start + passes))
    if len(active):
      active = history.in_order(active)  # which spares a gather
      lost = now - start[active]
      g = history.latest(active)
      history.add(active, _reject(siblings, g, active, lost, q, p))
  g = history.latest(nodes)
  entry = family.spread(jnp.concatenate(entries), np.concatenate(heads), N)
  return Offers(
    chance=family.unpack(g).mass if inherits else entry,
    offered=entry > 0,
    residual=functools.partial(
      family.residual_at,
      tree,
      siblings,
      g,
      q,
      p,
      lambda node: (node == ROOT) | (not inherits),
    ),
  )


class _History:
  """All residuals that there ever are, and where each node's last one is."""

  def __init__(self, count: int):
    self.steps: list[jax.Array] = []  # [n, 4 + K] of each step
    self.last = np.zeros((count, 2), np.int32)  # the step, and the row there

  def add(self, nodes, g):
    """Adds the residuals g of these nodes."""
    step = np.full(len(nodes), len(self.steps))
    self.last[nodes] = np.stack([step, np.arange(len(nodes))], axis=1)
    self.steps.append(g)

  def in_order(self, nodes):
    """Returns the nodes as their residuals lie."""
    return nodes[np.lexsort(self.last[nodes].T[::-1])]

  def latest(self, nodes):
    """Returns the residuals [n, 4 + K] of these nodes."""
    order = np.lexsort(self.last[nodes].T[::-1])
    step, row = self.last[nodes][order].T
    parts = [rows(self.steps[i], row[step == i]) for i in np.unique(step)]
    return rows(jnp.concatenate(parts), np.argsort(order))


def _times(tree, inherits):
  """[N] when each node's first pass is; when it is entered, -1: not by itself.

  Where nodes inherit, a first child is entered with its parent.
  """
  if not inherits:
    return np.zeros(len(tree), np.int32), np.where(tree.depth, tree.rank, -1)
  start = np.zeros(len(tree), np.int32)
  for node in range(1, len(tree)):
    start[node] = start[tree.parent[node]] + tree.rank[node]
  first_born = (tree.rank == 0) & (tree.depth > 0)
  return start, np.where(first_born, -1, start)


def _with_first_born(tree, siblings, nodes, entry):
  """Adds first children, their first children, and so on: nodes and entries.

  A first child's family is fresh, g = entry p, and so no residual is needed.
  """
  generations, entries = [nodes], [entry]
  while len(inner := np.flatnonzero(tree.num_children[generations[-1]])):
    above = generations[-1][inner]
    generations.append(tree.children[above, 0])
    law = family.law_of(siblings, above, 0)
    g_at = rows(entries[-1], inner) * siblings.p_at[above, 0]
    entries.append(residual.enter(g_at, law.at[:, 0], law.exists))
  return np.concatenate(generations), jnp.concatenate(entries)


def _reject(siblings, g, nodes, lost, q, p):
  """[n, 4 + K] the residuals g of these nodes after child `lost` of each."""

  def reject(g, law, fresh, tokens, q, p):
    off = functools.partial(residual.mass_off, p=p, q=q, tokens=tokens)
    return family.pack(residual.reject(family.unpack(g), law, fresh, off))

  laws = family.law_of(siblings, nodes, lost)
  arrays = siblings.fresh, siblings.tokens, q, p
  after = jax.vmap(reject)(g, laws, *(rows(array, nodes) for array in arrays))
  if siblings.tokens.shape[1] > _WIDE:
    after = jax.lax.optimization_barrier(after)
  return after
