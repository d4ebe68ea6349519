"""Children and residuals of all nodes, as arrays with an axis for nodes.

Residuals are stored as rows [4 + K] with one column for each number of
`Residual`, so that an operation on several nodes is one kernel.

Axes: N nodes, n selected nodes, K children of a node, V vocabulary.
"""

import functools

import jax
import jax.numpy as jnp
import numpy as np

from tv_jax.proposals import INVALID
from tv_jax.tree import NO_CHILD
from tv_jax.verifiers import residual
from tv_jax.verifiers.base import Draft
from tv_jax.verifiers.residual import Law, Residual, Siblings

# First column of `Residual.at`.
AT = 4


def gather(draft: Draft) -> Siblings:
  """Gathers the children of all nodes: `Siblings` with a leading axis [N]."""
  tree, proposal, tokens, q, p = draft
  children, N = tree.children, len(tree)
  drawn = jnp.where(children == NO_CHILD, INVALID, tokens[children])
  at = np.arange(N, dtype=np.int32)[:, None], jnp.maximum(drawn, 0)
  # The total probability of q outside the children's tokens. It costs a pass
  # over a row of q, so it is computed only for families that need it.
  asked = np.flatnonzero(tree.num_children > proposal.rest_from)
  rest = jnp.zeros(N, q.dtype)
  if len(asked):
    one, zero = jnp.ones((), q.dtype), jnp.zeros((), q.dtype)
    off = jax.vmap(lambda q, drawn: residual.mass_off(one, zero, q, q, drawn))
    rest = spread(off(rows(q, asked), rows(drawn, asked)), asked, N)
  siblings = functools.partial(residual.siblings, proposal)
  return jax.vmap(siblings)(drawn, p[at], q[at], rest)


def law_of(siblings: Siblings, node, rank) -> Law:
  """Returns the distributions of the children of these ranks."""
  return jax.tree.map(lambda x: x[node, rank], siblings.laws)


def residual_at(draft: Draft, siblings: Siblings, g, spared, node) -> jax.Array:
  """Returns a node's residual [V] after all its rejections, up to a factor.

  `spared(node)` says whether the rows g [N, 4 + K] are from before the node's
  last rejection.
  """
  count = jnp.asarray(draft.tree.num_children)
  law = law_of(siblings, node, jnp.maximum(count[node] - 1, 0))
  law = law._replace(exists=law.exists & spared(node))
  last = residual.shift(unpack(g[node]), law)
  return residual.write_out(
    last, siblings.tokens[node], draft.p[node], draft.q[node]
  )


def begin(siblings: Siblings, nodes, chance) -> jax.Array:
  """Returns the residuals [n, 4 + K] of nodes entered with `chance` [n]."""
  return pack(jax.vmap(residual.begin)(rows(siblings.p_at, nodes), chance))


def pack(g: Residual) -> jax.Array:
  """Converts residuals to rows."""
  return jnp.concatenate([jnp.stack(g[:AT], axis=-1), g.at], axis=-1)


def unpack(g: jax.Array) -> Residual:
  """Converts rows to residuals."""
  return Residual(*(g[..., i] for i in range(AT)), at=g[..., AT:])


def rows(array: jax.Array, index: np.ndarray) -> jax.Array:
  """Returns array[index], as a slice if possible, which costs nothing."""
  index = index.astype(np.int32)  # the same program with and without x64
  if len(index) and np.array_equal(index, np.arange(index[0], index[-1] + 1)):
    return array[int(index[0]) : int(index[-1]) + 1]
  return array[index]


def spread(values: jax.Array, index: np.ndarray, length: int) -> jax.Array:
  """Returns [length] with values[i] at index[i], else 0, without a scatter."""
  place = np.full(length, len(index), np.int32)
  place[index] = np.arange(len(index))
  if np.array_equal(index, np.arange(length)):
    return values
  return jnp.concatenate([values, jnp.zeros_like(values[:1])])[place]
