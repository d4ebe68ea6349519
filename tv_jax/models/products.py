"""Products with weights. A model uses all its weight matrices through these.

Weights are [out, in], as in checkpoints: an array, or a `Quantised` matrix. On
a CPU, `native` multiplies few rows, unless a mesh splits the weights.
"""

import jax
import jax.numpy as jnp
from jax.sharding import Mesh

from tv_jax.models import native, quantised, sharding
from tv_jax.models.quantised import Quantised

Matrix = jax.Array | Quantised


def dense(x: jax.Array, kernel: Matrix, mesh: Mesh | None) -> jax.Array:
  """Returns the product [.., out] of `x` [.., in] and `kernel` [out, in]."""
  if isinstance(kernel, Quantised):
    return quantised.product(x, kernel).astype(x.dtype)
  if mesh is None and native.fits(x, kernel):
    return native.product(x, kernel).astype(x.dtype)
  return jnp.einsum("...i,oi->...o", x, kernel)


def logits(
  features: jax.Array, table: Matrix, mesh: Mesh | None = None
) -> jax.Array:
  """Returns the product [.., V] of [.., E] and `table` [V, E] in float32."""
  if isinstance(table, Quantised):
    return quantised.product(features, table)
  if mesh is None and native.fits(features, table):
    return native.product(features, table)
  return jnp.einsum(
    "...E,VE->...V", features, table, preferred_element_type=jnp.float32
  )


def rows(table: Matrix, index: jax.Array, mesh: Mesh | None) -> jax.Array:
  """Returns rows [.., E] of `table` [V, E]. Indices are clipped."""
  if isinstance(table, Quantised):
    return quantised.rows(table, index)
  return sharding.rows(table, index, mesh)


def take(table: Matrix, index) -> Matrix:
  """Returns the matrix of some rows of `table`."""
  if isinstance(table, Quantised):
    return quantised.take(table, index)
  return table[index]
