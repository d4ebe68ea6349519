"""Additive attention masks: who sees which slot of the cache.

A pass writes its T rows to the slots from the cache's length on, and only
then attends, so a mask is over all S slots, the new rows among them.
"""

import jax
import jax.numpy as jnp

# Finite: a row that sees nothing (padding) gets a mean, not a NaN.
HIDDEN = -1e30


def tree(start: jax.Array, ancestors: jax.Array, slots: int) -> jax.Array:
  """Each query sees the prefix and its own ancestors.

  The pass over one level of a tree takes that level's rows of `ancestors`
  (`ancestors[level]`): the root stays in slot `start` while the levels fill
  the slots behind it.

  Args:
    start: [B] the slot of each row's root; all slots before it are seen.
    ancestors: [T, N] bool: whether the query sees node n, in slot start + n.
      A node is its own ancestor. Or [B, T, N], where rows have other trees.
    slots: S, of the cache.

  Returns:
    [B, T, S] float32: 0 where seen, HIDDEN elsewhere.
  """
  N = ancestors.shape[-1]
  node = jnp.arange(slots, dtype=jnp.int32)[None, :] - start[:, None]
  inside = (node >= 0) & (node < N)
  place = jnp.clip(node, 0, N - 1)
  if ancestors.ndim == 3:
    related = jnp.take_along_axis(ancestors, place[:, None], axis=2)
    seen = jnp.where(inside[:, None], related, (node < 0)[:, None])
    return jnp.where(seen, 0.0, HIDDEN).astype(jnp.float32)
  related = jnp.take(ancestors, place, axis=1)  # [T, B, S]
  seen = jnp.where(inside[None], related, (node < 0)[None])
  return jnp.where(seen, 0.0, HIDDEN).astype(jnp.float32).swapaxes(0, 1)


def causal(start: jax.Array, queries: int, slots: int) -> jax.Array:
  """Each of the new rows sees the prefix, the rows before it, and itself.

  Args:
    start: [B] the slot of each row's first query: the cache's length.
    queries: T.
    slots: S, of the cache.

  Returns:
    [B, T, S] float32.
  """
  return tree(start, jnp.tri(queries, dtype=bool), slots)


def block(known: jax.Array, start: jax.Array, rows: int, slots: int):
  """Each row of a block sees what is known, and all of the block.

  Args:
    known: [B] how many slots are seen besides the block's.
    start: [B] the slot of its first row.
    rows: K, of it.
    slots: S, of the cache.

  Returns:
    [B, 1, S] float32, the same for each row.
  """
  slot = jnp.arange(slots, dtype=jnp.int32)[None]
  inside = slot - start[:, None]
  seen = (slot < known[:, None]) | ((inside >= 0) & (inside < rows))
  return jnp.where(seen, 0.0, HIDDEN).astype(jnp.float32)[:, None]
