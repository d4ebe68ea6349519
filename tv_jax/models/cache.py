"""Preallocated keys and values of the processed tokens.

Each layer has two arrays [B, G, S, C]. If layers were stacked, or S came
before G, a compiled step would copy or transpose caches instead of updating
them in place. Donate the cache to jitted functions.

Slots from `length` on hold old rows, which the mask hides until they are
overwritten. Nothing checks that length + T <= S: XLA would move a longer update
back over earlier rows. So choose S for the longest row.
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
    values: One array per layer.
    length: Number of filled slots in each batch row. To drop the last slots,
      make it smaller with `dataclasses.replace`.
  """

  keys: tuple[jax.Array, ...]  # L x [B, G, S, C]
  values: tuple[jax.Array, ...]  # L x [B, G, S, C]
  length: jax.Array  # [B] int32

  @property
  def slots(self) -> int:
    """S, the number of slots."""
    return self.keys[0].shape[2]


def empty(config: Config, batch: int, length: int) -> Cache:
  """Returns an empty cache of `length` slots for `batch` rows."""
  shape = (batch, config.num_key_value_heads, length, config.head_dim)

  def layers():
    # Separate buffers, so that all can be donated.
    return tuple(
      jnp.zeros(shape, config.dtype) for _ in range(config.num_hidden_layers)
    )

  return Cache(
    keys=layers(), values=layers(), length=jnp.zeros([batch], jnp.int32)
  )


def write(buffer: jax.Array, rows: jax.Array, start: jax.Array) -> jax.Array:
  """Writes `rows` [B, G, T, C] to `buffer` [B, G, S, C] from slot `start`."""

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
  # A single row on a CPU: XLA would fuse a slice update with its two readers
  # and copy the whole buffer four times. It does not fuse a scatter, and these
  # indices keep it from turning the scatter into a slice update. With weights
  # of SmolLM2's shape and 2048 slots, a pass over one token takes 71 ms instead
  # of 191 (least of nine runs in alternation, on two shared cores); with 512
  # slots the difference is noise.
  return lax.platform_dependent(
    buffer, rows, start, cpu=by_head, default=at_once
  )


def compact(
  cache: Cache, start: jax.Array, nodes: jax.Array, count: jax.Array
) -> Cache:
  """Keeps one path of a tree and drops all other nodes.

  With start = 7, nodes = [0, 2, 5, 0] and count = 3, the rows in slots
  7 + [0, 2, 5] move to slots 7, 8, 9, and the length becomes 10. The row of the
  fourth entry moves too, but lies beyond the length.

  Args:
    cache: A cache with node n of the tree in slot start + n.
    start: [B] Slot of each row's root.
    nodes: [B, D + 1] The nodes to keep, from the root down.
    count: [B] Number of nodes to keep.

  Returns:
    The cache of length start + count.
  """
  slots = start[:, None] + nodes

  def kept(buffer):
    return jnp.take_along_axis(
      buffer, slots[:, None, :, None], axis=2, mode="clip"
    )

  # Gathered into one array to start few kernels: a GPU takes longer to start a
  # kernel than to move a path's rows.
  buffers = (*cache.keys, *cache.values)
  rows = lax.optimization_barrier(jnp.stack([*map(kept, buffers)]))
  moved = [write(*pair, start) for pair in zip(buffers, rows, strict=True)]
  half = len(cache.keys)
  return Cache(
    keys=tuple(moved[:half]),
    values=tuple(moved[half:]),
    length=start + count,
  )
