"""The keys and values of what was processed, preallocated.

Each layer has its own two arrays, and rows are laid out [B, G, S, C]: with
layers stacked, or S before G, a compiled step copies or transposes caches
instead of updating them in place. Donate the cache to whatever is jitted.

Slots from `length` on hold leftovers. They are written before they are read:
a mask never shows them. Nothing checks that length + T <= S, where an update
would be moved back over earlier rows: choose S for the longest row.
"""

import dataclasses

import jax
import jax.numpy as jnp
from jax import lax

from tv_jax.models.config import Config


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True, kw_only=True)
class Cache:
  """Keys and values of each layer.

  Attributes:
    keys: One array per layer.
    values: Likewise.
    length: The slot that the next row of a batch row goes to. To forget what
      was written, put back a smaller one with `dataclasses.replace`.
  """

  keys: tuple[jax.Array, ...]  # L x [B, G, S, C]
  values: tuple[jax.Array, ...]  # L x [B, G, S, C]
  length: jax.Array  # [B] int32

  @property
  def slots(self) -> int:
    """S."""
    return self.keys[0].shape[2]


def empty(config: Config, batch: int, length: int) -> Cache:
  """A cache of `length` slots for `batch` rows, nothing in it yet."""
  shape = (batch, config.num_key_value_heads, length, config.head_dim)

  def layers():
    # Each its own buffer, so that all can be donated.
    return tuple(
      jnp.zeros(shape, config.dtype) for _ in range(config.num_hidden_layers)
    )

  return Cache(
    keys=layers(), values=layers(), length=jnp.zeros([batch], jnp.int32)
  )


def write(buffer: jax.Array, rows: jax.Array, start: jax.Array) -> jax.Array:
  """Puts `rows` [B, G, T, C] into `buffer` [B, G, S, C] from slot `start`."""

  def row(buffer, rows, start):
    return lax.dynamic_update_slice(buffer, rows, (0, start, 0))

  def at_once(buffer, rows, start):
    return lax.dynamic_update_slice(buffer, rows, (0, 0, start[0], 0))

  def by_head(buffer, rows, start):
    head = jnp.arange(buffer.shape[1], dtype=jnp.int32)
    slot = jnp.minimum(start[0], buffer.shape[2] - 1)
    return buffer.at[0, head, slot].set(
      rows[0, :, 0], mode="promise_in_bounds", unique_indices=True
    )

  if buffer.shape[0] > 1:
    return jax.vmap(row)(buffer, rows, start)
  if rows.shape[2] > 1:  # vmap would make it a scatter
    return at_once(buffer, rows, start)
  # A single row on a CPU: as a slice it is fused with each of its two readers,
  # and the buffer copied whole four times. A scatter is left alone, and these
  # indices keep it one. With weights of SmolLM2's shape and 2048 slots a pass
  # over one token takes 71 ms instead of 191 (two cores that others used too;
  # the least of nine, in turn); with 512 slots the difference is noise.
  return lax.platform_dependent(
    buffer, rows, start, cpu=by_head, default=at_once
  )


def compact(
  cache: Cache, start: jax.Array, nodes: jax.Array, count: jax.Array
) -> Cache:
  """Keeps one path of a tree, and forgets the rest of it.

  With start = 7 and nodes = [0, 2, 5, 0], count = 3, the rows in slots
  7 + [0, 2, 5] go to slots 7, 8, 9 and the length becomes 10. What the fourth
  entry names is moved too, but lies beyond the length.

  Args:
    cache: In which node n of the tree is in slot start + n.
    start: [B] the slot of each row's root.
    nodes: [B, D + 1] the nodes to keep, from the root down.
    count: [B] how many of them to keep.

  Returns:
    The cache of length start + count.
  """
  slots = start[:, None] + nodes

  def kept(buffer):
    return jnp.take_along_axis(
      buffer, slots[:, None, :, None], axis=2, mode="clip"
    )

  # Gathered into one array, which is as few kernels as there may be: a GPU
  # takes longer to start one than to move a path's rows.
  buffers = (*cache.keys, *cache.values)
  rows = lax.optimization_barrier(jnp.stack([*map(kept, buffers)]))
  moved = [write(*pair, start) for pair in zip(buffers, rows, strict=True)]
  half = len(cache.keys)
  return Cache(
    keys=tuple(moved[:half]),
    values=tuple(moved[half:]),
    length=start + count,
  )
