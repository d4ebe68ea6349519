"""The traversal with a joint plan for each pair of siblings.

The paper's step treats one child at a time, as if no other child followed. Any
joint plan for the children works as well. Let the children t_1 .. t_k of a node
be drawn from a joint law, and let child i be taken with chance a_i(t_1 .. t_k).
The sum of the a_i is at most 1, and

    f(x) = E[sum_i a_i 1(t_i = x)] <= g(x)     for all x.

After everything below its elder siblings was rejected, child i is entered with
chance a_i / (1 - sum_{j<i} a_j). After everything below all children was
rejected,

    g <- (g - f) / (sum (g - f) + 1 - sum g).

For one child and a = min(1, g / q) this is the paper's step. The paper's proof
holds with this step in its place (docs/beyond.md). Here `pairs.py` plans the
children two by two. A last odd child is planned by itself, so on a chain the
rule makes the decisions of the traversal.

Unlike in the traversal, g is not a combination of p and q, so each family needs
a row of g. All families of a level are computed at once, or one after another
if the tree is an argument.

Axes: N nodes, M nodes that have children, K children of a node, V vocabulary.
"""

from __future__ import annotations

import functools
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from examples.rules import pairs
from tv_jax.proposals import INVALID, exhausted, over
from tv_jax.tree import NO_CHILD, ROOT, Tree
from tv_jax.verifiers.offers import Offers
from tv_jax.verifiers.residual import enter, positive
from tv_jax.verifiers.verifier import Verifier


class Node(NamedTuple):
  """The state of a node after some of its children were rejected."""

  g: jax.Array  # [V]
  mass: jax.Array  # [] sum(g)
  deficit: jax.Array  # [] 1 - sum(g), stored to keep its digits
  rest: jax.Array  # [V] q, but 0 for the children so far
  scale: jax.Array  # [] rest * scale is the law of the next child


def enter_two(node: Node, tokens, both, options) -> tuple[jax.Array, Node]:
  """Returns the chances to enter two children, and their parent after them.

  Args:
    node: The parent.
    tokens: [2] The children; INVALID for a missing child.
    both: [] Whether the tree has both children; None if there is one at most.
    options: Options of the plan.
  """
  q = node.rest * node.scale
  place = jnp.maximum(tokens, 0)
  exists = (tokens != INVALID) & ~(q[place] <= 0)

  def alone():
    first = enter(node.g[place[0]], q[place[0]], exists[0])
    chance = jnp.stack([first, jnp.zeros_like(first)])
    return chance, jnp.minimum(node.g, q)

  def together():
    plan = pairs.plan(node.g, q, options)
    return pairs.enter(plan, place, exists, options), plan.taken

  chance, taken = (
    alone() if both is None else jax.lax.cond(both, together, alone)
  )
  remaining = positive(node.g - taken)
  kept = jnp.sum(remaining)
  size = kept + node.deficit
  # If no mass is left, the children cannot all be rejected: g stays unchanged.
  usable = exists[0] & ~(size <= exhausted(size.dtype))
  size = jnp.where(usable, size, 1)
  vocabulary = jnp.arange(len(q), dtype=jnp.int32)
  drawn = (vocabulary == tokens[0]) | (vocabulary == tokens[1])
  rest = jnp.where(drawn, 0, node.rest)
  after = Node(
    g=jnp.where(usable, remaining / size, node.g),
    mass=jnp.where(usable, kept / size, node.mass),
    deficit=jnp.where(usable, node.deficit / size, node.deficit),
    rest=rest,
    scale=over(jnp.sum(rest)),
  )
  return jnp.where(exists, chance, 0), after


def _family(options, most, size, tokens, q, p, chance):
  """Returns the chances to enter a node's children, and its g and mass after.

  Args:
    options: Options of the plans for pairs.
    most: The most children that a node of the level has.
    size: [] The node's number of children.
    tokens: [K] The children's tokens; K is even.
    q: [V] The draft's law after the node.
    p: [V] The target's law after the node.
    chance: [] The chance to enter the node.
  """
  node = Node(
    g=chance * p,
    mass=chance,
    deficit=1 - chance,
    rest=q,
    scale=jnp.ones_like(chance),
  )
  chances = []
  for begin in range(0, most, 2):
    both = size > begin + 1 if most > begin + 1 else None
    entered, node = enter_two(node, tokens[begin : begin + 2], both, options)
    chances.append(entered)
  return jnp.concatenate(chances), node.g, node.mass


def offers(tree, proposal, tokens, q, p, *, options=pairs.DEFAULT) -> Offers:
  """Computes the acceptance probabilities and residuals of all nodes."""
  del proposal  # without_replacement
  known, N = isinstance(tree, Tree), len(tokens)
  K = tree.children.shape[1]
  children = jnp.pad(
    jnp.asarray(tree.children), ((0, 0), (0, K % 2)), constant_values=NO_CHILD
  )
  absent = children == NO_CHILD
  drawn = jnp.where(absent, INVALID, tokens[children])
  place = jnp.where(absent, N, children)
  sizes = jnp.sum(~absent, axis=1, dtype=jnp.int32)

  def families(which, most, entry):
    family, width = functools.partial(_family, options, most), most + most % 2
    arrays = sizes, drawn[:, :width], q, p, entry
    return place[which, :width], family, [array[which] for array in arrays]

  entry = jnp.zeros(N, p.dtype).at[ROOT].set(1)
  if known:
    mass, rows = entry, []
    row = np.zeros(N, np.int32)
    row[tree.inner] = np.arange(len(tree.inner))
    for level in tree.levels[:-1]:
      which = np.array([node for node in level if tree.num_children[node]])
      most = int(tree.num_children[which].max())
      below, family, arrays = families(which, most, entry)
      chances, g, after = jax.vmap(family)(*arrays)
      entry = entry.at[below].set(chances, mode="drop")
      mass = mass.at[which].set(after)
      rows.append(g)
    mass = jnp.where(tree.num_children == 0, entry, mass)
    rows, row = jnp.concatenate(rows), jnp.asarray(row)
  else:

    def visit(node, state):
      entry, mass, rows = state
      below, family, arrays = families(node, K, entry)
      inner = ~absent[node, 0] & (entry[node] > 0)
      idle = jnp.zeros(len(below), p.dtype), rows[node], entry[node]
      chances, g, after = jax.lax.cond(inner, family, lambda *_: idle, *arrays)
      entry = entry.at[below].set(chances, mode="drop")
      return entry, mass.at[node].set(after), rows.at[node].set(g)

    entry, mass, rows = jax.lax.fori_loop(
      0, N, visit, (entry, entry, jnp.zeros_like(p))
    )
    row = jnp.arange(N, dtype=jnp.int32)

  def residual(node):
    return jnp.where(absent[node, 0], p[node], rows[row[node]])

  return Offers(chance=mass, offered=entry > 0, residual=residual)


rule = Verifier(
  name="ot_traversal",
  offers=offers,
  proposals=("without_replacement",),
  static_only=False,
)
