"""Tensor parallelism: how arrays are split over the devices.

Heads, MLP columns and the vocabulary are split. Everything else, including
verification and random keys, is the same on every device. Each layer then needs
two all-reduces, after its two products with row-split weights.
"""

from collections.abc import Sequence

import jax
import jax.numpy as jnp
from jax.sharding import AxisType, Mesh, NamedSharding, PartitionSpec

from tv_jax.io.errors import UserError
from tv_jax.models.config import Config

AXIS = "tensor"
SPLIT = frozenset({"heads", "mlp", "vocab"})


def mesh(devices=None) -> Mesh:
  """Makes a mesh for tensor parallelism over `devices`, by default all."""
  return Mesh(devices or jax.devices(), (AXIS,), axis_types=(AxisType.Auto,))


def placement(
  axes: Sequence[str | None], mesh: Mesh | None
) -> NamedSharding | None:
  """Returns the sharding of an array with these axes; None without a mesh."""
  if mesh is None:
    return None
  return NamedSharding(
    mesh, PartitionSpec(*(AXIS if axis in SPLIT else None for axis in axes))
  )


def replicate(x: jax.Array, mesh: Mesh | None) -> jax.Array:
  """Makes `x` the same on every device, which adds up partial sums."""
  if mesh is None:
    return x
  return jax.lax.with_sharding_constraint(
    x, NamedSharding(mesh, PartitionSpec())
  )


def rows(table, index: jax.Array, mesh: Mesh | None) -> jax.Array:
  """Returns rows [.., E] of a table [V, E] that is split over V.

  Indices are clipped.

  With a mesh, XLA would turn the lookup of a single row into a slice, and then
  gather the whole table on every device. So each device looks up its rows.
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
  """Refuses a mesh that cannot split a model of this configuration."""
  if mesh is None:
    return
  names = "num_key_value_heads", "intermediate_size", "vocab_size"
  sizes = {name: getattr(config, name) for name in names}
  odd = [f"{k}={v}" for k, v in sizes.items() if v % mesh.size]
  if odd:
    raise UserError(
      f"{', '.join(odd)} cannot be split over {mesh.size} devices: use a "
      "number of devices that divides them"
    )
