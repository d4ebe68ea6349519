"""Products with weights. Every weight matrix of a model is used through these.

Weights are [out, in], as in checkpoints.
"""

import jax
import jax.numpy as jnp


def dense(x: jax.Array, kernel: jax.Array) -> jax.Array:
  """Returns the product [.., out] of `x` [.., in] and `kernel` [out, in]."""
  return jnp.einsum("...i,oi->...o", x, kernel)


def logits(features: jax.Array, table: jax.Array) -> jax.Array:
  """Returns the product [.., V] of [.., E] and `table` [V, E] in float32."""
  return jnp.einsum(
    "...E,VE->...V", features, table, preferred_element_type=jnp.float32
  )
