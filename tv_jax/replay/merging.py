"""Laws on a few hundred tokens that verifiers judge as they judge the whole.

Axes: N nodes, M nodes that have children, K children of a node at most,
V vocabulary, W merged alphabet.

A rule needs p and q of a node exactly on its children's tokens; off them it
sums what is linear in (p, q) on either side of a ratio, such as
[alpha p - beta q]_+. So the likeliest tokens are kept as they are, and all
others are merged by their ratio p / q: each bin becomes one token that holds
the bin's sums. What is linear on a bin sums to the very same; of a sum whose
threshold alpha / beta falls inside a bin, that bin's part alone is off.

Each node has an alphabet of its own, and a node's token is a place in its
PARENT's. Twins, nodes that hold the same path, follow the same text, and a rule
may compare what was drawn below them: they share one alphabet, in which the
children of all of them stand. Below different texts tokens cannot be compared,
nor does any rule.
"""

import functools

import jax
import jax.numpy as jnp
import numpy as np

from tv_jax import drafting
from tv_jax.proposals import INVALID
from tv_jax.tree import NO_CHILD, ROOT, Adaptive, Topology, Tree

# How many of a node's tokens stay as they are: the children's, and then those
# with the largest max(p, q).
KEPT = 64


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
# The last tokens of a merged alphabet, which are no token's.
BINS = len(EDGES) + 1


def size(
  tree: Tree | Adaptive,
  vocabulary: int,
  kept: int = KEPT,
  bins=EDGES,
  distinct: bool = False,
) -> int:
  """Returns W."""
  return min(vocabulary, _places(tree, kept, distinct) + len(bins) + 1)


def _places(tree, kept, distinct):
  """How many tokens stay: all that the children of one alphabet may hold."""
  if distinct:
    return max(kept, tree.max_children)
  return max(kept, *map(len, tree.levels))


def merge(
  tree: Tree | Adaptive,
  tokens: jax.Array,
  q: jax.Array,
  p: jax.Array,
  *,
  kept: int = KEPT,
  bins: np.ndarray = EDGES,
  distinct: bool = False,
  topology: Topology | None = None,
) -> tuple[jax.Array, jax.Array, jax.Array]:
  """Makes a drafted tree's alphabets small.

  Args:
    tree: The tree, or what shaped it.
    tokens: [N] int32, INVALID where there is none; the root's is ignored.
    q: [M, V] draft laws of the nodes that have children.
    p: [M, V] target laws of these nodes.
    kept: How many tokens stay as they are, at least.
    bins: Where bins begin, as EDGES.
    distinct: Whether no two siblings hold the same token: then there are no
      twins to look for.
    topology: What it was shaped to.

  Returns:
    tokens [N], the root's being INVALID, and q and p [M, W]. A vocabulary that
    is no larger than W stays as it is.
  """
  tokens = tokens.at[ROOT].set(INVALID)
  V = q.shape[-1]
  # What follows a node that could not be drawn is of no account.
  drawn = (tree.inner == ROOT) | (tokens[tree.inner] != INVALID)
  first = jnp.zeros(V, q.dtype).at[0].set(1)
  q, p = (jnp.where(drawn[:, None], laws, first) for laws in (q, p))
  if size(tree, V, kept, bins, distinct) == V:
    return tokens, q, p
  known = topology or tree
  assert not isinstance(known, Adaptive)
  children = jnp.asarray(known.children)[tree.inner]
  drawn = jnp.where(children == NO_CHILD, INVALID, tokens[children])
  weight = jnp.maximum(q, p)
  if not distinct:
    twins = _twins(jnp.asarray(known.paths), tree, tokens)
    # By one of them, for rounding may differ; with the children of all.
    weight = weight[jnp.argmax(twins, axis=1)]
    all_drawn = jnp.where(twins[:, :, None], drawn, INVALID)
    weight = _first(weight, all_drawn.reshape(len(weight), -1))
  one = functools.partial(
    _merge,
    kept=_places(tree, kept, distinct),
    bins=jnp.asarray(bins, q.dtype),
  )
  places, q, p = jax.vmap(one)(drawn, _first(weight, drawn), q, p)
  family = jnp.asarray(drafting.place_of(tree))
  parent, rank = (jnp.asarray(x)[1:] for x in (known.parent, known.rank))
  places = places[family[jnp.maximum(parent, ROOT)], rank]
  places = jnp.where(tokens[1:] == INVALID, INVALID, places)
  return tokens.at[1:].set(places), q, p


def _twins(paths, tree, tokens):
  """[M, M] whether two inner nodes hold the same path."""
  depth = tree.depth[tree.inner]
  text = tokens[paths[tree.inner]]  # beyond a node's depth: the root's
  same = (text[:, None] == text[None]).all(axis=-1)
  return same & (depth[:, None] == depth[None])


def _first(weight, drawn):
  """The weights [M, V] with more than all others' on the tokens [M, n]."""

  def one(row, tokens):
    place = jnp.where(tokens == INVALID, len(row), tokens)
    return row.at[place].set(2, mode="drop")

  return jax.vmap(one)(weight, drawn)


def _merge(drawn, weight, q, p, *, kept, bins):
  """One family: its tokens [K] renamed, and its laws [W]."""
  own = jnp.sort(jax.lax.top_k(weight, kept)[1]).astype(jnp.int32)
  which = _bins_of(q, p, bins).at[own].set(len(bins) + 1)  # no bin's
  laws = jnp.stack([q, p], axis=-1)
  sums = jax.ops.segment_sum(laws, which, len(bins) + 2)[:-1]
  q, p = jnp.concatenate([laws[own], sums]).T
  # Twins have one place; what is not among `own` is INVALID.
  place = jnp.searchsorted(own, drawn).astype(jnp.int32)
  return jnp.where(drawn == INVALID, INVALID, place), q, p


def _bins_of(q, p, bins):
  """[V] the bin of each token, by p / q."""
  # Where both are 0 the bin does not matter; p / q may overflow into the last.
  ratio = jnp.where(q > 0, p / jnp.where(q > 0, q, 1), jnp.inf)
  return jnp.searchsorted(bins, ratio, side="right").astype(jnp.int32)
