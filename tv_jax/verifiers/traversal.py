"""Traversal verification, all rows of a step at once.

Weng et al., "Traversal Verification for Speculative Tree Decoding" (NeurIPS
2025), Algorithm 3; `traversal_loop.py` is its literal form, and in
`traversal_kernel.py` what is done here has kernels of its own.

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


class Step(NamedTuple):
  """What happens at one time, as places in static arrays.

  Nodes are entered in columns: first those that come after a rejection, then
  their first children, then the first children of these, and so on. At work
  are the families of nodes entered now, and of those `kept` from before.
  """

  columns: tuple[np.ndarray, ...]  # nodes entered, each column [n]
  own: np.ndarray  # places at work before of the first column's families
  kept: np.ndarray  # places at work before of the families that stay
  active: np.ndarray  # [n] families at work now: the new ones, then the kept
  lost: np.ndarray  # [n] the child that each of them loses


@functools.lru_cache(maxsize=256)
def schedule(tree: Tree) -> tuple[Step, ...]:
  """The steps; the first enters the root."""
  parents, family_of = tree.inner, tree.family
  time = np.zeros(len(tree), np.int32)
  for node in range(1, len(tree)):
    time[node] = time[tree.parent[node]] + tree.rank[node]
  # The root's last rejection needs no pass: it is accepted, whatever its mass.
  passes = tree.num_children[parents] - (parents == ROOT)
  steps, before = [], np.zeros(0, np.int32)
  for now in range(int(time.max()) + 1):
    place = {int(which): i for i, which in enumerate(before)}
    heads = (time == now) & ((tree.rank > 0) | (np.arange(len(tree)) == ROOT))
    columns = [np.flatnonzero(heads)]
    while len(inner := columns[-1][tree.num_children[columns[-1]] > 0]):
      columns.append(tree.children[inner, 0])
    entered = np.concatenate(columns)
    new = family_of[entered[tree.num_children[entered] > 0]]
    new = new[passes[new] > 0]
    stay = before[now - time[parents[before]] < passes[before]]
    active = np.concatenate([new, stay])
    above = family_of[tree.parent[columns[0]]] if now else before
    steps.append(
      Step(
        columns=tuple(columns),
        own=np.array([place[which] for which in above], np.int32),
        kept=np.array([place[which] for which in stay], np.int32),
        active=active,
        lost=now - time[parents[active]],
      )
    )
    before = active
  return tuple(steps)


class _Offers(NamedTuple):
  """Everything that no coin changes."""

  children: residual.Siblings  # [M, ..]
  g: jax.Array  # [M, 4 + K] after all rejections; but the root's last
  entered: jax.Array  # [N] whether the node can be offered at all
  mass: jax.Array  # [N] the chance that it is accepted when it is offered
  fault: jax.Array  # []


def _offers(tree, proposal, tokens, q, p) -> _Offers:
  parents, family_of = tree.inner, tree.family
  children = family.gather(tree, proposal, tokens, q, p)
  one = jnp.ones(1, p.dtype)
  g = family.begin(children, np.array([0]), one)
  # All residuals that there ever are, and the last place of each family's.
  history, length, final = [g], 1, np.zeros(len(parents), np.int32)
  nodes, chances = [], []
  for step in schedule(tree):
    entered, chance = _enter(tree, step, children, g, one)
    nodes.append(entered)
    chances.append(chance)
    if not len(step.active):
      continue
    new = np.flatnonzero(np.isin(family_of[entered], step.active))
    begun = family.begin(
      children, family_of[entered[new]], family.rows(chance, new)
    )
    g = (
      jnp.concatenate([begun, family.rows(g, step.kept)])
      if len(step.kept)
      else begun
    )
    g = family.reject(tree, children, g, step.active, step.lost, q, p)
    history.append(g)
    final[step.active] = length + np.arange(len(g))
    length += len(g)
  g = family.rows(jnp.concatenate(history), final)
  entry = family.spread(
    jnp.concatenate(chances), np.concatenate(nodes), len(tree)
  )
  inner = family.spread(family.mass_of(g), parents, len(tree))
  mass = jnp.where(tree.num_children == 0, entry, inner)
  return _Offers(
    children=children,
    g=g,
    entered=(entry > 0) & (np.arange(len(tree)) != ROOT),
    mass=mass,
    fault=jnp.any(jnp.isnan(entry) | jnp.isnan(mass)),
  )


def _enter(tree, step, children, g, one):
  """The nodes of a step, and the chances to enter them."""
  family_of = tree.family
  heads = step.columns[0]
  if len(heads) and heads[0] == ROOT:
    chances = [one]
  else:
    which, rank = family_of[tree.parent[heads]], tree.rank[heads]
    chances = [family.enter(children, g, step.own, which, rank)]
  # A first child's family is fresh: g = chance * p.
  firsts = np.concatenate([np.zeros(0, np.int32), *step.columns[1:]])
  which = family_of[tree.parent[firsts]]
  p_at, law = children.p_at[which, 0], children.laws
  law_at, exists = law.at[which, 0, 0], law.exists[which, 0]
  start = 0
  for above, column in itertools.pairwise(step.columns):
    inner = np.flatnonzero(tree.num_children[above] > 0)
    own = slice(start, start := start + len(column))
    chances.append(
      residual.enter(
        family.rows(chances[-1], inner) * p_at[own], law_at[own], exists[own]
      )
    )
  return np.concatenate(step.columns), jnp.concatenate(chances)


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
  node = order[place]
  own_tokens, own_g = family.at_node(
    tree, offers.children, offers.g, node, spared=node == ROOT
  )
  reached = np.argsort(tree.postorder) <= place
  return conclude(
    node=node,
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
  """[N] the law of the first hit when node i is hit with chance mass[i].

  A padded `postorder` names the root again, with nothing left to add.
  """
  chance = mass.at[ROOT].set(1)[postorder]
  missed = jnp.cumprod(
    jnp.concatenate([jnp.ones(1, mass.dtype), 1 - chance[:-1]])
  )
  return jnp.zeros_like(mass).at[postorder].add(chance * missed)
