"""Trees that take their shape while they are drafted.

A policy decides which nodes get children, and how many. It sees the draft's
probabilities after the existing nodes, and no token of a child. With such a
policy every verifier stays lossless. A tree that is pruned by the tokens that
were drawn would change their distribution, and no verifier accounts for that.

Axes: N places of the tree, n places of a level, m places of the level above,
K maximum number of children, D depth, V vocabulary.
"""

from __future__ import annotations

from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from tv_jax.edge.errors import UserError
from tv_jax.tree import NO_CHILD, NO_PARENT, ROOT, Adaptive, Topology

# Assumed acceptance probability of a first child if the draft is uniform.
_LEAST = 0.5


class Chosen(NamedTuple):
  """The nodes of a level, in level order. Empty places come last."""

  # [n] index of the parent among the nodes above that may have children
  above: jax.Array | np.ndarray
  rank: jax.Array | np.ndarray  # [n] number of elder siblings
  exists: jax.Array  # [n] bool: False for an empty place
  score: jax.Array  # [n] the policy's score
  fault: jax.Array  # [] bool: the policy returned a NaN


def by_confidence(laws: jax.Array, score: jax.Array, most: int) -> jax.Array:
  """Scores children by an estimate of the probability that they are accepted.

  The first child is assumed to be accepted with probability
  s = (1 + max q) / 2, and each later one with probability s if all its elders
  were rejected. The estimate is not calibrated to a pair.

  Args:
    laws: [n, V] Draft probabilities after each node of a level.
    score: [n] Scores of these nodes.
    most: K.

  Returns:
    [n, K] Scores of their children.
  """
  accepted = _LEAST + (1 - _LEAST) * jnp.max(laws, axis=-1)
  rank = jnp.arange(most, dtype=accepted.dtype)[None]
  return (score * accepted)[:, None] * (1 - accepted)[:, None] ** rank


def choose(
  shape: Adaptive,
  depth: int,
  laws: jax.Array,  # [m, V] draft probabilities after each node above
  score: jax.Array,  # [m] scores of the nodes above; 0 for an empty place
) -> Chosen:
  """Chooses the nodes at `depth`: the children with the highest scores."""
  policy = shape.policy or by_confidence
  width, most = shape.widths[depth - 1], shape.most
  children = policy(laws, score, most)
  if np.shape(children) != (wanted := (len(laws), most)):
    raise UserError(
      f"the policy returned {list(np.shape(children))} scores: return"
      f" {list(wanted)}, one for each possible child"
    )
  fault = jnp.any(jnp.isnan(children) & (score > 0)[:, None])
  # A NaN counts as 0. A child's score is at most its parent's, and at most each
  # elder sibling's. So empty places get no children, and no sibling is skipped.
  children = jnp.where(children > 0, children, 0)
  children = jax.lax.cummin(jnp.minimum(children, score[:, None]), axis=1)
  # top_k takes equal scores from the left, so an elder before a younger one.
  value, place = jax.lax.top_k(children.ravel(), width)
  place = jnp.sort(jnp.where(value > 0, place, children.size))
  exists = place < children.size
  place = jnp.where(exists, place, 0)
  return Chosen(
    above=(place // most).astype(jnp.int32),
    rank=jnp.where(exists, place % most, 0).astype(jnp.int32),
    exists=exists,
    score=jnp.where(exists, children.ravel()[place], 0),
    fault=fault,
  )


def topology(shape: Adaptive, parent: jax.Array) -> Topology:
  """Builds the topology from the parent of each place.

  Args:
    shape: The places and the policy.
    parent: [N] The parents, with siblings adjacent; NO_PARENT for the root and
      for empty places.
  """
  N, K = len(shape), shape.most
  place = np.arange(N, dtype=np.int32)
  first = jnp.append(True, parent[1:] != parent[:-1])
  eldest = jax.lax.cummax(jnp.where(first, place, 0))
  rank = jnp.where(parent == NO_PARENT, 0, place - eldest)
  exists = (parent != NO_PARENT) | (place == ROOT)
  above = jnp.maximum(parent, ROOT)
  children = jnp.full((N, K), NO_CHILD, jnp.int32)
  row = jnp.where(exists & (place != ROOT), above, N)  # row N is dropped
  children = children.at[row, rank].set(place, mode="drop")
  ancestors = jnp.asarray(np.eye(N, dtype=bool))
  for level in shape.levels[1:]:
    nodes = slice(level.start, level.stop)
    ancestors = ancestors.at[nodes].max(ancestors[above[nodes]])
  depths = np.arange(shape.max_depth + 1)[:, None] == shape.depth
  on_path = ancestors[:, None] & depths[None]  # [N, D + 1, N]
  # In post-order a node comes after all nodes below it, and after the subtrees
  # of its elder siblings and of the elder siblings of all its ancestors.
  size = jnp.sum(ancestors & exists[:, None], axis=0, dtype=jnp.int32)
  sizes = jnp.where(children == NO_CHILD, 0, size[jnp.maximum(children, 0)])
  elder = (jnp.cumsum(sizes, axis=1) - sizes)[above, rank]
  begin = jnp.sum(
    jnp.where(ancestors, elder[None], 0), axis=1, dtype=size.dtype
  )
  number = jnp.where(exists, begin + size - 1, N)
  return Topology(
    parent=jnp.where(exists, parent, NO_PARENT),
    rank=rank,
    children=children,
    postorder=jnp.full(N, ROOT, jnp.int32).at[number].set(place, mode="drop"),
    depth=jnp.asarray(shape.depth),
    ancestors=ancestors,
    paths=jnp.argmax(on_path, axis=-1).astype(jnp.int32),
  )
