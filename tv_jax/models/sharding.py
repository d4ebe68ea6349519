"""Tensor parallelism: which axis of which array is split over the devices.

Heads, MLP columns and the vocabulary are split; all else, verification and
keys among it, is the same on every device. Two all-reduces per layer follow,
one after each of its two row-split products.
"""

from collections.abc import Sequence

import jax
import jax.numpy as jnp
from jax.sharding import (
  AxisType,
  Mesh,
  NamedSharding,
  PartitionSpec,
)

from tv_jax.models.config import Config

AXIS = "tensor"
SPLIT = frozenset({"heads", "mlp", "vocab"})


def mesh(devices=None) -> Mesh:
  """Makes a mesh for tensor parallelism over `devices`, by default all."""
  return Mesh(devices or jax.devices(), (AXIS,), axis_types=(AxisType.Auto,))


def placement(
  axes: Sequence[str | None], mesh: Mesh | None
) -> NamedSharding | None:
  """Returns where an array with these axes lives; None without a mesh."""
  if mesh is None:
    return None
  return NamedSharding(
    mesh, PartitionSpec(*(AXIS if axis in SPLIT else None for axis in axes))
  )


def replicate(x: jax.Array, mesh: Mesh | None) -> jax.Array:
  """Makes `x` the same on every device: where partial sums are added up."""
  if mesh is None:
    return x
  return jax.lax.with_sharding_constraint(
    x, NamedSharding(mesh, PartitionSpec())
  )


def rows(table, index: jax.Array, mesh: Mesh | None) -> jax.Array:
  """Returns rows [.., E] of a table [V, E] that is split over V.

  Indices are clipped.

  Spelt out for a mesh: XLA turns the lookup of a single row into a slice, and
  then gathers the whole table on every device.
  """
  if mesh is None:
    return jnp.take(table, index, axis=0, mode="clip")

  def held(table, index):
    V = len(table)
    place = index - jax.lax.axis_index(AXIS) * V
    taken = jnp.take(table, place, axis=0, mode="clip")
    inside = ((place >= 0) & (place < V))[..., None]
    return jax.lax.psum(jnp.where(inside, taken, jnp.zeros_like(taken)), AXIS)

  index = jnp.clip(index, 0, len(table) - 1)
  specs = PartitionSpec(AXIS), PartitionSpec()
  return jax.shard_map(
    held, mesh=mesh, in_specs=specs, out_specs=PartitionSpec()
  )(table, index)


def check(config: Config, mesh: Mesh | None) -> None:
  """Refuses a mesh over which `config` can't be split."""
  if mesh is None:
    return
  names = "num_key_value_heads", "intermediate_size", "vocab_size"
  sizes = {name: getattr(config, name) for name in names}
  odd = [f"{k}={v}" for k, v in sizes.items() if v % mesh.size]
  if odd:
    raise ValueError(
      f"{', '.join(odd)} cannot be split over {mesh.size} devices: use a "
      "number of devices that divides them"
    )
