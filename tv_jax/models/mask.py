"""Additive attention masks over the slots of the cache.

A pass first writes its T rows to the cache, from the cache's length on, and
then attends. So a mask covers all S slots, including the new rows.
"""

import jax
import jax.numpy as jnp

# Finite, so that a row that sees nothing (padding) gets a mean and not NaN.
HIDDEN = -1e30


def additive(seen: jax.Array) -> jax.Array:
  """Returns a mask in float32: 0 where `seen`, HIDDEN elsewhere."""
  return jnp.where(seen, 0.0, HIDDEN).astype(jnp.float32)


def tree(start: jax.Array, ancestors: jax.Array, slots: int) -> jax.Array:
  """Lets each query see the prefix, its ancestors in the tree, and itself.

  The pass over one level of a tree takes that level's rows of `ancestors`
  (`ancestors[level]`): the root stays in slot `start`, and each level fills
  the slots behind the levels above it.

  Args:
    start: [B] Slot of each row's root. All earlier slots are visible.
    ancestors: [T, N] bool: whether the query sees node n, in slot start + n.
    slots: S, the number of slots.

  Returns:
    [B, T, S] float32: 0 where seen, HIDDEN elsewhere.
  """
  N = ancestors.shape[-1]
  node = jnp.arange(slots, dtype=jnp.int32)[None, :] - start[:, None]
  inside = (node >= 0) & (node < N)
  place = jnp.clip(node, 0, N - 1)
  related = jnp.take(ancestors, place, axis=1)  # [T, B, S]
  seen = jnp.where(inside[None], related, (node < 0)[None])
  return additive(seen).swapaxes(0, 1)


def causal(start: jax.Array, queries: int, slots: int) -> jax.Array:
  """Lets each query see the prefix, the queries before it, and itself.

  Args:
    start: [B] Slot of each row's first query: the cache's length.
    queries: T, the number of queries.
    slots: S, the number of slots.

  Returns:
    [B, T, S] float32.
  """
  return tree(start, jnp.tri(queries, dtype=bool), slots)


def block(known: jax.Array, start: jax.Array, rows: int, slots: int):
  """Lets all rows of a block see the known tokens and the whole block.

  Args:
    known: [B] Number of slots with known tokens, at the front of the cache.
    start: [B] Slot of the block's first row.
    rows: K, the number of rows in the block.
    slots: S, the number of slots.

  Returns:
    [B, 1, S] float32, the same for all rows.
  """
  slot = jnp.arange(slots, dtype=jnp.int32)[None]
  inside = slot - start[:, None]
  seen = (slot < known[:, None]) | ((inside >= 0) & (inside < rows))
  return additive(seen)[:, None]
