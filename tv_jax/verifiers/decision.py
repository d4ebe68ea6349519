"""What a verifier decides about one drafted tree.

Axes: N nodes, V vocabulary.
"""

from __future__ import annotations

import dataclasses

import jax
import jax.numpy as jnp

from tv_jax.tree import ROOT

# The threshold of a coin that was not tossed: no probability.
NOT_OFFERED = -1.0


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True, kw_only=True)
class Decision:
  """What was decided about one drafted tree."""

  node: jax.Array  # [] int32 the accepted node; the root: nothing was accepted
  residual: jax.Array  # [V] the law of the bonus token
  accept: jax.Array  # [N] what coin i was compared with, or NOT_OFFERED
  fault: jax.Array  # [] bool: a NaN was met; one plain step instead


def settle(
  *,
  node: jax.Array,
  weights: jax.Array,
  p: jax.Array,
  accept: jax.Array,
  fault: jax.Array,
) -> Decision:
  """Makes the decision for `node`, its residual given as weights [V].

  After a fault nothing is accepted, and the bonus token comes from what is
  finite in the root's own law: one step of plain decoding. `fault` says whether
  one was met on the way; another may show only now, in the weights.
  """
  total = jnp.sum(weights)
  fault |= ~jnp.isfinite(total) | (jnp.min(weights) < 0)
  root = p[ROOT]
  root = jnp.where((root > 0) & (root < jnp.inf), root, 0)
  mass = jnp.sum(root)
  plain = jnp.where(
    mass > 0, root / jnp.where(mass > 0, mass, 1), 1 / len(root)
  )
  # Weights of 0 without a fault are rounding, after rejections that had no
  # chance.
  law = jnp.where(total > 0, weights / jnp.where(total > 0, total, 1), p[node])
  return Decision(
    node=jnp.where(fault, ROOT, node).astype(jnp.int32),
    residual=jnp.where(fault, plain, law),
    accept=jnp.where(fault, NOT_OFFERED, accept),
    fault=fault,
  )
