"""Products with weights. A model uses all its weight matrices through these.

Weights are [out, in], as in checkpoints. On a CPU, `native` multiplies few
rows, unless a mesh splits the weights.
"""

import jax
import jax.numpy as jnp
from jax.sharding import Mesh

from tv_jax.models import native


def dense(x: jax.Array, kernel: jax.Array, mesh: Mesh | None) -> jax.Array:
  """Returns the product [.., out] of `x` [.., in] and `kernel` [out, in]."""
  if mesh is None and native.fits(x, kernel):
    return native.product(x, kernel).astype(x.dtype)
  return jnp.einsum("...i,oi->...o", x, kernel)


def logits(
  features: jax.Array, table: jax.Array, mesh: Mesh | None = None
) -> jax.Array:
  """Returns the product [.., V] of [.., E] and `table` [V, E] in float32."""
  if mesh is None and native.fits(features, table):
    return native.product(features, table)
  return jnp.einsum(
    "...E,VE->...V", features, table, preferred_element_type=jnp.float32
  )
