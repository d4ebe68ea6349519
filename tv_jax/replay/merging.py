"""Laws on some hundred tokens that verifiers judge as they judge the whole.

Axes: N nodes, M nodes that have children, V vocabulary, W merged alphabet.

A rule needs p and q of a node exactly on its children's tokens; off them it
sums what is linear in (p, q) on either side of a ratio, such as
[alpha p - beta q]_+. So an alphabet has

- all tokens that were drafted anywhere in the tree, the same places for every
  node: nodes that hold the same path can be compared;
- the node's likeliest others;
- bins, each of which holds the sums of all other tokens of about one p / q.

What is linear on a bin sums to the very same; of a sum whose threshold
alpha / beta falls inside a bin, that bin's part alone is off.
"""

import jax
import jax.numpy as jnp
import numpy as np

from tv_jax.proposals import INVALID
from tv_jax.tree import ROOT, Tree

# How many of a node's likeliest tokens stay as they are.
LIKELIEST = 32


def _edges() -> np.ndarray:
  """Ratios p / q at which bins begin, apart from the first bin.

  Tokens with p = 0 and with q = 0 have bins of their own. In between, up to a
  factor exp(8) from 1, bins widen with the distance of log p / q from 0. An
  edge is at 1, which makes a first rejection, [p - q]_+, exact; and most bins
  are above, since the rules here weigh with ratios of 1 and more.
  """
  place = np.linspace(-1, 0, 17)[:-1], np.linspace(0, 1, 45)
  logs = 8.0 * np.sinh(3 * np.concatenate(place)) / np.sinh(3)
  tiny = np.finfo(np.float32).tiny
  return np.array([tiny, *np.exp(logs), np.inf], np.float32)


EDGES = _edges()
BINS = len(EDGES) + 1


def merge(
  tree: Tree, tokens: jax.Array, q: jax.Array, p: jax.Array
) -> tuple[jax.Array, jax.Array, jax.Array]:
  """Makes a drafted tree's alphabet small.

  Args:
    tree: The tree.
    tokens: [N] int32, INVALID where there is none; the root's is ignored.
    q: [M, V] draft laws of the nodes that have children.
    p: [M, V] target laws of these nodes.

  Returns:
    tokens [N], the root's being INVALID, and q and p [M, W]. A vocabulary that
    is no larger than W stays as it is.
  """
  tokens = tokens.at[ROOT].set(INVALID)
  V, drafted = q.shape[-1], len(tree) - 1
  # What follows a node that could not be drawn is of no account.
  drawn = (tree.inner == ROOT) | (tokens[tree.inner] != INVALID)
  first = jnp.zeros(V, q.dtype).at[0].set(1)
  q, p = (jnp.where(drawn[:, None], laws, first) for laws in (q, p))
  if drafted + LIKELIEST + BINS >= V:
    return tokens, q, p
  named = jnp.where(tokens == INVALID, V, tokens)
  shared = jnp.unique(named[1:], size=drafted, fill_value=V)  # V: no token
  places = jnp.searchsorted(shared, named).astype(jnp.int32)

  def one(laws):  # [V, 2] of a node
    largest = laws.max(axis=1).at[shared].set(-1, mode="drop")
    kept = jnp.concatenate([shared, jax.lax.top_k(largest, LIKELIEST)[1]])
    bins = _bins_of(laws).at[kept].set(BINS, mode="drop")
    sums = jax.ops.segment_sum(laws, bins, BINS + 1)[:-1]
    exact = laws.at[kept].get(mode="fill", fill_value=0)
    return jnp.concatenate([exact, sums])

  merged = jax.vmap(one)(jnp.stack([q, p], axis=-1))
  tokens = jnp.where(tokens == INVALID, INVALID, places)
  return tokens, merged[..., 0], merged[..., 1]


def _bins_of(laws):
  """[V] the bin of each token, by p / q."""
  # Where both are 0 the bin does not matter; p / q may overflow into the last.
  q, p = laws.T
  ratio = jnp.where(q > 0, p / jnp.where(q > 0, q, 1), jnp.inf)
  edges = jnp.asarray(EDGES, laws.dtype)
  return jnp.searchsorted(edges, ratio, side="right").astype(jnp.int32)
