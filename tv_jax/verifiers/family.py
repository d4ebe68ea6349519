"""What the two forms of the step share: a draft's families, and residuals.

A family is a node with its children. Residuals are rows [4 + K], a column for
each number of `Residual`: what is done to some of them is then one kernel.

Axes: N nodes, K children of a node, V vocabulary.
"""

import functools

import jax
import jax.numpy as jnp
import numpy as np

from tv_jax.proposals import INVALID, Proposal
from tv_jax.tree import NO_CHILD, Topology, Tree
from tv_jax.verifiers import residual
from tv_jax.verifiers.residual import Law, Residual, Siblings

# Where the columns of `at` begin.
AT = 4


def gather(tree: Tree | Topology, proposal: Proposal, tokens, q, p) -> Siblings:
  """Gathers the children of every node: `Siblings` with a leading [N]."""
  children, N = tree.children, len(tokens)
  drawn = jnp.where(children == NO_CHILD, INVALID, tokens[children])
  at = np.arange(N, dtype=np.int32)[:, None], jnp.maximum(drawn, 0)
  # The mass of q off the children's tokens, where a law asks for it.
  sizes = children.shape[1] * np.ones(N, np.int32)
  sizes = tree.num_children if isinstance(tree, Tree) else sizes
  asked = np.flatnonzero(sizes > proposal.rest_from)
  rest = jnp.zeros(N, q.dtype)
  if len(asked):
    one, zero = jnp.ones((), q.dtype), jnp.zeros((), q.dtype)
    off = jax.vmap(lambda q, drawn: residual.mass_off(one, zero, q, q, drawn))
    rest = spread(off(rows(q, asked), rows(drawn, asked)), asked, N)
  siblings = functools.partial(residual.siblings, proposal)
  return jax.vmap(siblings)(drawn, p[at], q[at], rest)


def law_of(siblings: Siblings, node, rank) -> Law:
  """Returns what nodes' children of these ranks were drawn from."""
  return jax.tree.map(lambda x: x[node, rank], siblings.laws)


def residual_at(tree, siblings: Siblings, g, q, p, spared, node) -> jax.Array:
  """Returns what is left at a node after all its rejections, up to scale: [V].

  Args:
    tree: The tree.
    siblings: All families.
    g: [N, 4 + K] the residuals.
    q: [N, V]
    p: [N, V]
    spared: Function of a node: whether its last rejection was left out, since
      there the mass does not matter.
    node: []
  """
  if isinstance(tree, Tree):  # or it would be a kernel of its own
    count = jnp.asarray(tree.num_children)[node]
  else:
    count = jnp.sum(tree.children[node] != NO_CHILD, dtype=jnp.int32)
  law = law_of(siblings, node, jnp.maximum(count - 1, 0))
  law = law._replace(exists=law.exists & spared(node))
  last = residual.shift(unpack(g[node]), law)
  return residual.write_out(last, siblings.tokens[node], p[node], q[node])


def begin(siblings: Siblings, nodes, chance) -> jax.Array:
  """Returns nodes entered with `chance` [n], no child tried yet: [n, 4 + K]."""
  return pack(jax.vmap(residual.begin)(rows(siblings.p_at, nodes), chance))


def pack(g: Residual) -> jax.Array:
  """Puts residuals into rows."""
  return jnp.concatenate([jnp.stack(g[:AT], axis=-1), g.at], axis=-1)


def unpack(g: jax.Array) -> Residual:
  """Takes residuals out of rows."""
  return Residual(*(g[..., i] for i in range(AT)), at=g[..., AT:])


def rows(array: jax.Array, index: np.ndarray) -> jax.Array:
  """Returns array[index], as a slice where it can be one: it costs nothing."""
  index = index.astype(np.int32)  # the same with and without x64
  if len(index) and np.array_equal(index, np.arange(index[0], index[-1] + 1)):
    return array[int(index[0]) : int(index[-1]) + 1]
  return array[index]


def spread(values: jax.Array, index: np.ndarray, length: int) -> jax.Array:
  """Returns [length], values[i] at index[i], 0 elsewhere, with no scatter."""
  place = np.full(length, len(index), np.int32)
  place[index] = np.arange(len(index))
  if np.array_equal(index, np.arange(length)):
    return values
  return jnp.concatenate([values, jnp.zeros_like(values[:1])])[place]
