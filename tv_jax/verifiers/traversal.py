"""Traversal verification, all rows of a step at once.

Weng et al., "Traversal Verification for Speculative Tree Decoding" (NeurIPS
2025), Algorithm 3; `traversal_loop.py` is its literal form.

Axes: N nodes, M nodes that have children, K children of a node, V vocabulary.

Algorithm 3 offers one node after the other, children before parents, and
refreshes what is left of the tree after each rejection. But what a node's
residual becomes depends only on the node's own start, its laws and its
children's tokens, never on what happened below the children. So everything
that is V-sized is a function of the tree alone, and can be had before a coin is
tossed. A node of rank r can start once its parent has lost r children, and then
takes one pass over its rows for each child of its own:

    time(v) = time(parent(v)) + rank(v),    pass j of v at time(v) + j.

All passes of one time are one batched operation, N - 2 row passes together. A
chain takes one step whatever its depth, the EAGLE tree four, the binary tree of
depth 5 six. The rest is arithmetic on N scalars: the accepted node is the first
in post-order with eta < mass.
"""

import functools
import itertools
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from tv_jax import proposals
from tv_jax.tree import ROOT, Tree
from tv_jax.verifiers import family, residual
from tv_jax.verifiers.decision import NOT_OFFERED, Decision, conclude


class _Step(NamedTuple):
  """What happens at one time, as places in static arrays.

  Nodes are entered in columns: first those that come after a rejection, then
  their first children, then the first children of these, and so on.
  """

  columns: tuple[np.ndarray, ...]  # nodes, each column [n]
  nodes: np.ndarray  # all of them
  active: np.ndarray  # [n] families that lose a child now
  lost: np.ndarray  # [n] the child that they lose


@functools.lru_cache(maxsize=256)
def _schedule(tree: Tree) -> tuple[_Step, ...]:
  parents = family.parents_of(tree)
  time = np.zeros(len(tree), int)
  for node in range(1, len(tree)):
    time[node] = time[tree.parent[node]] + tree.rank[node]
  # The root's last rejection needs no pass: it is accepted, whatever its mass.
  passes = tree.num_children[parents] - (parents == ROOT)
  starts = time[parents]
  steps = []
  for now in range(int(max(time.max() + 1, (starts + passes).max()))):
    heads = (time == now) & ((tree.rank > 0) | (np.arange(len(tree)) == ROOT))
    columns = [np.flatnonzero(heads)]
    while len(inner := columns[-1][tree.num_children[columns[-1]] > 0]):
      columns.append(tree.children[inner, 0])
    active = np.flatnonzero((starts <= now) & (now < starts + passes))
    steps.append(
      _Step(
        columns=tuple(columns),
        nodes=np.concatenate(columns),
        active=active,
        lost=now - starts[active],
      )
    )
  return tuple(steps)


class _Offers(NamedTuple):
  """Everything that no coin changes."""

  children: residual.Siblings  # [M, ..]
  g: residual.Residual  # [M, ..] after all children were rejected
  entered: jax.Array  # [N] whether the node can be offered at all
  mass: jax.Array  # [N] the chance that it is accepted when it is offered
  fault: jax.Array  # []


def _offers(tree, proposal, tokens, q, p) -> _Offers:
  parents = family.parents_of(tree)
  children = family.gather(tree, proposal, tokens, q, p)
  g = jax.vmap(residual.begin)(children.p_at, jnp.zeros(len(parents), p.dtype))
  nodes, chances = [], []
  for step in _schedule(tree):
    if len(step.nodes):
      nodes.append(step.nodes)
      chances.append(_enter(tree, step, children, g))
      begins = np.flatnonzero(tree.num_children[step.nodes])
      places = family.family_of(tree)[step.nodes[begins]]
      begun = jax.vmap(residual.begin)(
        family.take(children.p_at, places), family.take(chances[-1], begins)
      )
      g = family.put(g, places, begun)
    if len(step.active):
      g = family.reject(tree, children, g, step.active, step.lost, q, p)
  root, last = np.array([0]), tree.num_children[[ROOT]] - 1
  g = family.reject_last(children, g, root, last)
  entry = family.spread(
    jnp.concatenate(chances), np.concatenate(nodes), len(tree)
  )
  leaf = tree.num_children == 0
  mass = jnp.where(leaf, entry, family.spread(g.mass, parents, len(tree)))
  return _Offers(
    children=children,
    g=g,
    entered=(entry > 0) & (np.arange(len(tree)) != ROOT),
    mass=mass,
    fault=jnp.any(jnp.isnan(entry) | jnp.isnan(mass)),
  )


def _enter(tree, step, children, g) -> jax.Array:
  """The chances to enter the nodes of `step.columns`, one after the other."""
  heads = step.columns[0]
  if heads[0] == ROOT:
    chances = [jnp.ones_like(g.alpha[:1])]
  else:
    own = family.take((g, children), family.family_of(tree)[tree.parent[heads]])
    chances = [jax.vmap(residual.entry)(*own, tree.rank[heads])]
  for above, column in itertools.pairwise(step.columns):
    inner = np.flatnonzero(tree.num_children[above] > 0)
    own = family.take(children, family.family_of(tree)[tree.parent[column]])
    chances.append(
      residual.chance_to_enter(
        chances[-1][inner] * own.p_at[:, 0], own.at[:, 0, 0], own.exists[:, 0]
      )
    )
  return jnp.concatenate(chances)


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
  # The root is accepted by construction, never by comparing.
  hit = (np.arange(len(tree)) == ROOT) | (offers.entered & (eta < offers.mass))
  order = jnp.asarray(tree.postorder)
  place = jnp.argmax(hit[order])
  own_tokens, own_g = family.at_node(
    tree, offers.children, offers.g, order[place]
  )
  reached = np.argsort(tree.postorder) <= place
  return conclude(
    node=order[place],
    g=own_g,
    tokens=own_tokens,
    q=q,
    p=p,
    accept=jnp.where(reached & offers.entered, offers.mass, NOT_OFFERED),
    fault=offers.fault,
  )


def stop_law(
  tree: Tree,
  proposal: proposals.Proposal,
  tokens: jax.Array,
  q: jax.Array,
  p: jax.Array,
) -> jax.Array:
  """[N] the chance of each node to be the first in post-order that is hit."""
  offers = _offers(tree, proposal, tokens, q, p)
  return first_hit_law(
    jnp.asarray(tree.postorder),
    jnp.where(offers.entered & ~offers.fault, offers.mass, 0),
  )


def first_hit_law(postorder: jax.Array, mass: jax.Array) -> jax.Array:
  """[N] the law of the first hit when node i is hit with chance mass[i]."""
  chance = mass.at[ROOT].set(1)[postorder]
  missed = jnp.cumprod(
    jnp.concatenate([jnp.ones(1, mass.dtype), 1 - chance[:-1]])
  )
  return jnp.zeros_like(mass).at[postorder].set(chance * missed)
