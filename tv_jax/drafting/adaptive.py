"""Trees that take their shape while they are drafted.

Axes: N places, n places of a level, K children of a node at most, D depth,
V vocabulary.

Which nodes have children, and how many, is decided from the laws after the
nodes that are there already, before any child of theirs is drawn: a predictable
policy. Every verifier stays lossless under one. To draw first and then to keep
what looks good by its own token is another law, which none of them knows.
"""

from __future__ import annotations

from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from tv_jax.tree import NO_CHILD, NO_PARENT, ROOT, Adaptive, Topology

# What a child is thought to be worth where the draft knows nothing.
_LEAST = 0.5


class Chosen(NamedTuple):
  """The nodes of a level, in level order; places left empty come last."""

  # [n] the place of each one's parent among the level above
  above: jax.Array | np.ndarray
  rank: jax.Array | np.ndarray  # [n]
  exists: jax.Array  # [n] bool
  worth: jax.Array  # [n]
  fault: jax.Array  # [] bool: the policy gave a NaN


def by_confidence(laws: jax.Array, worth: jax.Array, most: int) -> jax.Array:
  """Makes children worth more, the surer the draft is of one token.

  The eldest is thought to be accepted with chance s = (1 + max q) / 2, each
  next one with s of what its elders have left. It is not calibrated: what s
  should be depends on the pair.

  Args:
    laws: [n, V] the draft's, after each node of a level.
    worth: [n] what these are worth.
    most: K.

  Returns:
    [n, K]
  """
  sure = _LEAST + (1 - _LEAST) * jnp.max(laws, axis=-1)
  rank = jnp.arange(most, dtype=sure.dtype)[None]
  return (worth * sure)[:, None] * (1 - sure)[:, None] ** rank


def choose(
  shape: Adaptive,
  depth: int,
  laws: jax.Array,  # [m, V] after each node of the level above
  worth: jax.Array,  # [m] of these; 0 where there is none
) -> Chosen:
  """Chooses the nodes at `depth`: of all children those worth most."""
  policy = shape.policy or by_confidence
  width, most = shape.widths[depth - 1], shape.most
  children = policy(laws, worth, most)
  if np.shape(children) != (wanted := (len(laws), most)):
    raise ValueError(
      f"the policy gave {list(np.shape(children))} worths: it should give"
      f" {list(wanted)}, one for each of the most children"
    )
  broken = jnp.any(jnp.isnan(children) & (worth > 0)[:, None])
  # A NaN is worth nothing; no child is worth more than its elder, nor than its
  # parent, and none hangs below what is not there.
  children = jnp.where(children > 0, children, 0)
  children = jax.lax.cummin(jnp.minimum(children, worth[:, None]), axis=1)
  # Equals are taken from the left: an elder before a younger one.
  value, place = jax.lax.top_k(children.ravel(), width)
  place = jnp.sort(jnp.where(value > 0, place, children.size))
  exists = place < children.size
  place = jnp.where(exists, place, 0)
  return Chosen(
    above=(place // most).astype(jnp.int32),
    rank=jnp.where(exists, place % most, 0).astype(jnp.int32),
    exists=exists,
    worth=jnp.where(exists, children.ravel()[place], 0),
    fault=broken,
  )


def topology(shape: Adaptive, parent: jax.Array) -> Topology:
  """Makes the tree of these parents [N], siblings adjacent; NO_PARENT: none."""
  N, K = len(shape), shape.most
  place = np.arange(N, dtype=np.int32)
  first = jnp.append(True, parent[1:] != parent[:-1])
  eldest = jax.lax.cummax(jnp.where(first, place, 0))
  rank = jnp.where(parent == NO_PARENT, 0, place - eldest)
  exists = (parent != NO_PARENT) | (place == ROOT)
  above = jnp.maximum(parent, ROOT)
  children = jnp.full((N, K), NO_CHILD, jnp.int32)
  dropped = jnp.where(exists & (place != ROOT), above, N)
  children = children.at[dropped, rank].set(place, mode="drop")
  ancestors = jnp.asarray(np.eye(N, dtype=bool))
  for level in shape.levels[1:]:
    nodes = slice(level.start, level.stop)
    ancestors = ancestors.at[nodes].max(ancestors[above[nodes]])
  depths = np.arange(shape.max_depth + 1)[:, None] == shape.depth
  on_path = ancestors[:, None] & depths[None]  # [N, D + 1, N]
  # In post-order a node comes after its own subtree, and those of elder
  # siblings of its own and of all nodes above it.
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
