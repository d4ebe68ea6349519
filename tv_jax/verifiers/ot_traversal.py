"""The traversal with siblings planned for in pairs.

The step of the paper takes one child after the other, each as if none followed.
Any joint plan for children does as well. Let the children t_1 .. t_k of a node
be drawn from a joint law, and let child i be taken with chance a_i(t_1 .. t_k),
the sum of which is at most 1, such that

    f(x) = E[sum_i a_i 1(t_i = x)] <= g(x)     for all x.

Then child i, all below its elders having been rejected, is entered with chance
a_i / (1 - sum_{j<i} a_j), and after all below all of them was rejected

    g <- (g - f) / (sum (g - f) + 1 - sum g).

For one child and a = min(1, g / q) this is the paper's step; the proof is the
paper's with this in its place (docs/beyond.md). Here children are planned for
two by two, as `pairs.py` does it, and a last odd one by itself: on a chain the
rule takes the decisions of the traversal.

g is no longer a combination of p and q, so that each family has a row of its
own. All families of a level at once; `ot_traversal_loop.py` takes the same
decisions node by node, and plans for those alone that it comes to.

Axes: N nodes, M nodes that have children, K children of a node, V vocabulary.
"""

from __future__ import annotations

import functools
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from tv_jax import proposals
from tv_jax.proposals import INVALID, exhausted, over
from tv_jax.tree import NO_CHILD, ROOT, Tree
from tv_jax.verifiers import pairs
from tv_jax.verifiers.decision import NOT_OFFERED, Decision, settle
from tv_jax.verifiers.residual import enter, positive
from tv_jax.verifiers.traversal import first_hit_law


class Node(NamedTuple):
  """A node, some of whose children were rejected."""

  g: jax.Array  # [V]
  mass: jax.Array  # [] sum(g)
  deficit: jax.Array  # [] 1 - sum(g), a number of its own
  rest: jax.Array  # [V] q off the children so far
  scale: jax.Array  # [] times this it is the law of the next child


class _Offers(NamedTuple):
  """Everything that no coin changes."""

  g: jax.Array  # [M, V] after all rejections
  entered: jax.Array  # [N] whether the node can be offered at all
  mass: jax.Array  # [N] the chance that it is accepted when it is offered
  fault: jax.Array  # []


def two(node: Node, tokens, both, how) -> tuple[jax.Array, Node]:
  """Two children, or one: the chances to enter them, and their parent after.

  Args:
    node: The parent.
    tokens: [2] INVALID where there is none.
    both: [] whether two were to be drawn; None: there never are two.
    how: How they are planned for.
  """
  q = node.rest * node.scale
  place = jnp.maximum(tokens, 0)
  exists = (tokens != INVALID) & ~(q[place] <= 0)

  def alone():
    first = enter(node.g[place[0]], q[place[0]], exists[0])
    chance = jnp.stack([first, jnp.zeros_like(first)])
    return chance, jnp.minimum(node.g, q)

  def together():
    plan = pairs.plan(node.g, q, how)
    return pairs.enter(plan, place, exists, how), plan.taken

  chance, taken = (
    alone() if both is None else jax.lax.cond(both, together, alone)
  )
  left = positive(node.g - taken)
  kept = jnp.sum(left)
  size = kept + node.deficit
  # Nothing is left after what had no chance to fail: g stays as it was.
  usable = exists[0] & ~(size <= exhausted(size.dtype))
  size = jnp.where(usable, size, 1)
  vocabulary = jnp.arange(len(q), dtype=jnp.int32)
  drawn = (vocabulary == tokens[0]) | (vocabulary == tokens[1])
  rest = jnp.where(drawn, 0, node.rest)
  after = Node(
    g=jnp.where(usable, left / size, node.g),
    mass=jnp.where(usable, kept / size, node.mass),
    deficit=jnp.where(usable, node.deficit / size, node.deficit),
    rest=rest,
    scale=over(jnp.sum(rest)),
  )
  return jnp.where(exists, chance, 0), after


def _family(how, most, size, tokens, q, p, chance):
  """The children of one node: chances to enter them, and what becomes of it.

  Args:
    how: How pairs are planned for.
    most: The most children that a node of its level has.
    size: [] how many it has itself.
    tokens: [K] K is even.
    q: [V] the draft's law after it.
    p: [V] the target's.
    chance: [] with which it was entered.
  """
  one = jnp.ones_like(chance)
  node = Node(g=chance * p, mass=chance, deficit=1 - chance, rest=q, scale=one)
  chances = []
  for begin in range(0, most, 2):
    both = size > begin + 1 if most > begin + 1 else None
    own, node = two(node, tokens[begin : begin + 2], both, how)
    chances.append(own)
  return jnp.concatenate(chances), node.g, node.mass


def _offers(tree, tokens, q, p, how) -> _Offers:
  entry = jnp.zeros(len(tree), p.dtype).at[ROOT].set(1)
  mass, rows = entry, []
  for level in tree.levels[:-1]:
    parents = np.array([node for node in level if tree.num_children[node]])
    sizes = tree.num_children[parents]
    most = int(sizes.max())
    children = tree.children[parents, :most]
    children = np.pad(
      children, ((0, 0), (0, most % 2)), constant_values=NO_CHILD
    )
    absent = children == NO_CHILD
    chances, g, mass_after = jax.vmap(functools.partial(_family, how, most))(
      sizes,
      jnp.where(absent, INVALID, tokens[children]),
      q[parents],
      p[parents],
      entry[parents],
    )
    place = np.where(absent, len(tree), children)
    entry = entry.at[place].set(chances, mode="drop")
    mass = mass.at[parents].set(mass_after)
    rows.append(g)
  mass = jnp.where(tree.num_children == 0, entry, mass)
  return _Offers(
    g=jnp.concatenate(rows),
    entered=(entry > 0) & (np.arange(len(tree)) != ROOT),
    mass=mass,
    fault=jnp.any(jnp.isnan(entry) | jnp.isnan(mass)),
  )


def decide(
  tree: Tree,
  proposal: proposals.Proposal,
  tokens: jax.Array,
  q: jax.Array,
  p: jax.Array,
  eta: jax.Array,
  *,
  how: pairs.How = pairs.USUAL,
) -> Decision:
  """See `decision.Verifier`."""
  del proposal  # without_replacement
  offers = _offers(tree, tokens, q, p, how)
  hit = (np.arange(len(tree)) == ROOT) | (offers.entered & (eta < offers.mass))
  order = jnp.asarray(tree.postorder)
  place = jnp.argmax(hit[order])
  node = jnp.where(offers.fault, ROOT, order[place])
  family = jnp.asarray(tree.family)[node]
  inner = (family < len(tree.inner)) & ~offers.fault
  reached = np.argsort(tree.postorder) <= place
  return settle(
    node=node,
    weights=jnp.where(inner, offers.g[family], p[node]),
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
  *,
  how: pairs.How = pairs.USUAL,
) -> jax.Array:
  """[N] the chance of each node to be the first in post-order that is hit."""
  del proposal
  offers = _offers(tree, tokens, q, p, how)
  return first_hit_law(
    jnp.asarray(tree.postorder),
    jnp.where(offers.entered & ~offers.fault, offers.mass, 0),
  )
