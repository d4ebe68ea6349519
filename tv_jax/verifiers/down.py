"""The walk from the root down: what is left of a rule once its entries are had.

A node's children are offered in draw order, each with a chance that no other
coin changes; the walk goes to the first that is taken, and ends at a node of
which none is. Static tables and elementwise steps: on a GPU one kernel, not one
for each.

Axes: N nodes, K children of a node.
"""

import jax
import jax.numpy as jnp
import numpy as np

from tv_jax.tree import NO_CHILD, ROOT, Tree


def walk(
  tree: Tree, entry: jax.Array, exists: jax.Array, eta: jax.Array
) -> tuple[jax.Array, jax.Array]:
  """Where the walk ends [], and which nodes were offered on the way [N].

  Args:
    tree: The tree.
    entry: [N] the chance to enter a node once it is offered.
    exists: [N] whether it can be offered; the root can't.
    eta: [N] the coins.
  """
  hit = exists & (eta < entry)
  elder_hit = jnp.zeros(len(tree), bool)
  for elder in _elders(tree):
    elder_hit |= (elder != NO_CHILD) & hit[elder]
  chosen = (np.arange(len(tree)) == ROOT) | (hit & ~elder_hit)
  above = jnp.ones(len(tree), bool)
  for ancestor in _lines(tree):
    above &= chosen[ancestor]
  reached = above & chosen
  node = jnp.argmax(jnp.where(reached, tree.depth, -1))
  return node, above & exists & ~elder_hit


def stop_law(tree: Tree, entry: jax.Array) -> jax.Array:
  """[N] the chance to reach a node and to enter none of its children."""
  missed = jnp.ones_like(entry)
  for elder in _elders(tree):
    missed *= jnp.where(elder != NO_CHILD, 1 - entry[elder], 1)
  step = jnp.where(np.arange(len(tree)) == ROOT, 1, entry * missed)
  reached = step
  for ancestor in _lines(tree):
    reached *= step[ancestor]
  stay = jnp.ones_like(entry)
  for child in tree.children.T:
    stay *= jnp.where(child != NO_CHILD, 1 - entry[child], 1)
  return reached * stay


def _elders(tree):
  """For each rank but the last, [N] a node's elder sibling of that rank."""
  siblings = tree.children[tree.parent]  # the root's wrap, and are not used
  none = (np.arange(siblings.shape[1]) >= tree.rank[:, None]).T
  return np.where(none, NO_CHILD, siblings.T)[:-1]


def _lines(tree):
  """For each step up, [N] a node's ancestor; the root above the root."""
  up = np.maximum(tree.parent, ROOT)
  line = [up]
  for _ in range(tree.max_depth - 1):
    line.append(up[line[-1]])
  return line
