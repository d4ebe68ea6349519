"""All families of a tree at once: what the level-parallel forms share.

A family is a node with its children. Axes: N nodes, M nodes that have
children, K children of a node at most, V vocabulary.
"""

import functools

import jax
import jax.numpy as jnp
import numpy as np

from tv_jax import proposals
from tv_jax.proposals import INVALID
from tv_jax.tree import NO_CHILD, Tree
from tv_jax.verifiers import residual


@functools.lru_cache(maxsize=256)
def parents_of(tree: Tree) -> np.ndarray:
  """[M] the nodes that have children, in level order."""
  return np.flatnonzero(tree.num_children)


@functools.lru_cache(maxsize=256)
def family_of(tree: Tree) -> np.ndarray:
  """[N] the place of a node in `parents_of`; M for a leaf."""
  place = np.full(len(tree), len(parents_of(tree)))
  place[parents_of(tree)] = np.arange(len(parents_of(tree)))
  return place


def rows(array: jax.Array, index: np.ndarray) -> jax.Array:
  """array[index], as a slice where the two are the same: it costs nothing."""
  if len(index) and np.array_equal(index, np.arange(index[0], index[-1] + 1)):
    return array[int(index[0]) : int(index[-1]) + 1]
  return array[index]


def gather(
  tree: Tree,
  proposal: proposals.Proposal,
  tokens: jax.Array,
  q: jax.Array,
  p: jax.Array,
) -> residual.Siblings:
  """The children of every node that has any: `Siblings` with a leading [M]."""
  parents = parents_of(tree)
  children = tree.children[parents]
  drawn = jnp.where(children == NO_CHILD, INVALID, tokens[children])
  place = jnp.maximum(drawn, 0)
  q_at = q[parents[:, None], place]
  p_at = p[parents[:, None], place]
  return jax.vmap(functools.partial(residual.siblings, proposal))(
    drawn, p_at, q_at, _rest(tree, proposal, drawn, q)
  )


def _rest(tree, proposal, drawn, q):
  """[M] the mass of q off the children's tokens, where a law asks for it."""
  parents = parents_of(tree)
  asked = np.flatnonzero(tree.num_children[parents] > proposal.rest_from)
  if not len(asked):
    return jnp.zeros(len(parents), q.dtype)
  q_asked = rows(q, parents[asked])
  one, zero = jnp.ones((), q.dtype), jnp.zeros((), q.dtype)
  rest = jax.vmap(
    lambda row, taken: residual.mass_off(one, zero, row, row, taken)
  )(q_asked, rows(drawn, asked))
  return spread(rest, asked, len(parents))


def reject(tree, children, g, active, lost, q, p):
  """The residuals g [M, ..] after families `active` lost child `lost` each.

  One pass over a row of p and of q for each, all in one operation.
  """
  own_g, own = take((g, children), active)
  shifted = jax.vmap(residual.shift)(own_g, own, lost)
  off = jax.vmap(residual.mass_off)(
    shifted.alpha,
    shifted.beta,
    rows(p, parents_of(tree)[active]),
    rows(q, parents_of(tree)[active]),
    own.tokens,
  )
  after = jax.vmap(residual.rescale)(own_g, shifted, own, lost, off)
  return put(g, active, after)


def reject_last(children, g, active, lost):
  """As `reject` where the mass no longer matters: no pass."""
  own_g, own = take((g, children), active)
  return put(g, active, jax.vmap(residual.shift)(own_g, own, lost))


def at_node(
  tree: Tree, children: residual.Siblings, g: residual.Residual, node
) -> tuple[jax.Array, residual.Residual]:
  """The children's tokens [K] and the residual of one node; p at a leaf."""
  place = jnp.asarray(family_of(tree))[node]
  leaf = place == len(parents_of(tree))
  tokens, g = jax.tree.map(lambda x: x[place], (children.tokens, g))
  whole = residual.Residual(alpha=1, beta=0, at=0, mass=1, deficit=0)
  g = jax.tree.map(lambda x, y: jnp.where(leaf, x, y), whole, g)
  return jnp.where(leaf, INVALID, tokens), g


def take(items, index: np.ndarray):
  """items[index] of every array in a pytree."""
  return jax.tree.map(lambda array: rows(array, index), items)


def put(items, index: np.ndarray, values):
  """The items with values[i] in place index[i]: selects, no scatter."""
  if not len(index):
    return items

  def select(old, new):
    mask = np.isin(np.arange(len(old)), index)
    mask = mask.reshape(-1, *[1] * (old.ndim - 1))
    return jnp.where(mask, spread(new, index, len(old)), old)

  return jax.tree.map(select, items, values)


def spread(values: jax.Array, index: np.ndarray, length: int) -> jax.Array:
  """[length, ..] with values[i] at index[i], and 0 elsewhere."""
  place = np.full(length, len(index))
  place[index] = np.arange(len(index))
  if np.array_equal(index, np.arange(length)):
    return values
  return jnp.concatenate([values, jnp.zeros_like(values[:1])])[place]
