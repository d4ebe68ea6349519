"""All families of a tree at once: what the level-parallel forms share.

A family is a node with its children. Axes: N nodes, M nodes that have
children, n of those at work in one step, K children of a node at most,
V vocabulary.

The residuals at work are one array [n, 4 + K], a column for each number of
`residual.Residual`: a step is then one small kernel beside its pass over V.
"""

import functools
from collections.abc import Callable

import jax
import jax.numpy as jnp
import numpy as np

from tv_jax import proposals
from tv_jax.proposals import INVALID
from tv_jax.tree import NO_CHILD, Tree
from tv_jax.verifiers import residual
from tv_jax.verifiers.residual import Residual

# Where the columns of `at` begin in a packed residual.
AT = 4
# With more children than this XLA is kept from fusing one rejection into the
# next: it would repeat all earlier ones, over and over, for minutes.
_WIDE = 8


def rows(array: jax.Array, index: np.ndarray) -> jax.Array:
  """array[index], as a slice where the two are the same: it costs nothing."""
  index = index.astype(np.int32)  # the same with and without x64
  if len(index) and np.array_equal(index, np.arange(index[0], index[-1] + 1)):
    return array[int(index[0]) : int(index[-1]) + 1]
  return array[index]


def sums_off(q: jax.Array, nodes: np.ndarray, tokens: jax.Array) -> jax.Array:
  """[n] the masses of q's rows of `nodes`, off the tokens [n, K] of each."""
  q = rows(q, nodes)
  one, zero = jnp.ones((), q.dtype), jnp.zeros((), q.dtype)
  return jax.vmap(
    lambda row, taken: residual.mass_off(one, zero, row, row, taken)
  )(q, tokens)


def gather(
  tree: Tree,
  proposal: proposals.Proposal,
  tokens: jax.Array,
  q: jax.Array,
  p: jax.Array,
  sums_off: Callable[..., jax.Array] = sums_off,
) -> residual.Siblings:
  """The children of every node that has any: `Siblings` with a leading [M]."""
  parents = tree.inner
  children = tree.children[parents]
  drawn = jnp.where(children == NO_CHILD, INVALID, tokens[children])
  place = jnp.maximum(drawn, 0)
  q_at = q[parents[:, None], place]
  p_at = p[parents[:, None], place]
  return jax.vmap(functools.partial(residual.siblings, proposal))(
    drawn, p_at, q_at, _rest(tree, proposal, drawn, q, sums_off)
  )


def _rest(tree, proposal, drawn, q, sums_off):
  """[M] the mass of q off the children's tokens, where a law asks for it."""
  parents = tree.inner
  asked = np.flatnonzero(tree.num_children[parents] > proposal.rest_from)
  if not len(asked):
    return jnp.zeros(len(parents), q.dtype)
  rest = sums_off(q, parents[asked], rows(drawn, asked))
  return spread(rest, asked, len(parents))


def begin(children: residual.Siblings, which, chance) -> jax.Array:
  """[n, 4 + K] the families `which`, entered with `chance` [n]."""
  p_at = rows(children.p_at, which)
  return _pack(jax.vmap(residual.begin)(p_at, chance))


def enter(children: residual.Siblings, g, own, which, rank) -> jax.Array:
  """[n] the chances to enter children.

  Args:
    children: All families.
    g: [m, 4 + K] residuals at work.
    own: [n] which of them are the children's families'.
    which: [n] which families these are.
    rank: [n] which child of each.
  """
  laws = children.laws
  return residual.enter(
    g[own, AT + rank], laws.at[which, rank, rank], laws.exists[which, rank]
  )


def reject(tree, children, g, which, lost, q, p) -> jax.Array:
  """The residuals g [n, 4 + K] of families `which` after child `lost` of each.

  One pass over a row of p and of q for each, all in one operation.
  """
  before = _unpack(g)
  law = jax.tree.map(lambda x: x[which, lost], children.laws)
  shifted = jax.vmap(residual.shift)(before, law)
  off = jax.vmap(residual.mass_off)(
    shifted.alpha,
    shifted.beta,
    rows(p, tree.inner[which]),
    rows(q, tree.inner[which]),
    rows(children.tokens, which),
  )
  kept = off + jax.vmap(residual.mass_on)(shifted, rows(children.fresh, which))
  after = _pack(jax.vmap(residual.rescale)(before, shifted, law, kept))
  if children.tokens.shape[1] > _WIDE:
    after = jax.lax.optimization_barrier(after)
  return after


def at_node(
  tree: Tree, children: residual.Siblings, g, node, *, spared
) -> tuple[jax.Array, Residual]:
  """What `conclude` needs of one node: its children's tokens, its residual.

  Args:
    tree: The tree.
    children: All families.
    g: [M, 4 + K] the families' residuals.
    node: [] a node, which may be a leaf.
    spared: [] whether the family's last rejection was left out, since there the
      mass does not matter.
  """
  place = jnp.asarray(tree.family)[node]
  leaf = place == len(tree.inner)
  last = jnp.asarray(tree.num_children[tree.inner] - 1)[place]
  law = jax.tree.map(lambda x: x[place, last], children.laws)
  law = law._replace(exists=law.exists & spared & ~leaf)
  own = residual.shift(_unpack(g[place]), law)
  whole = Residual(alpha=1, beta=0, mass=1, deficit=0, at=0)
  own = jax.tree.map(lambda x, y: jnp.where(leaf, x, y), whole, own)
  return jnp.where(leaf, INVALID, children.tokens[place]), own


def mass_of(g: jax.Array) -> jax.Array:
  """[n] the masses of packed residuals."""
  return _unpack(g).mass


def spread(values: jax.Array, index: np.ndarray, length: int) -> jax.Array:
  """[length, ..] with values[i] at index[i], and 0 elsewhere: no scatter."""
  place = np.full(length, len(index), np.int32)
  place[index] = np.arange(len(index))
  if np.array_equal(index, np.arange(length)):
    return values
  return jnp.concatenate([values, jnp.zeros_like(values[:1])])[place]


def _pack(g: Residual) -> jax.Array:
  return jnp.concatenate([jnp.stack(g[:AT], axis=-1), g.at], axis=-1)


def _unpack(g: jax.Array) -> Residual:
  return Residual(*(g[..., i] for i in range(AT)), at=g[..., AT:])
