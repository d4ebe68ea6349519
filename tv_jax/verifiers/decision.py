"""The decision of a verifier about one drafted tree.

Axes: N nodes, V vocabulary.
"""

from __future__ import annotations

import dataclasses

import jax
import jax.numpy as jnp

from tv_jax import probs
from tv_jax.tree import ROOT

# `Decision.accept` of a node that was not offered; outside [0, 1].
NOT_OFFERED = -1.0


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True, kw_only=True)
class Decision:
  """The outcome of verifying one drafted tree."""

  node: jax.Array  # [] int32 the accepted node; ROOT if none was accepted
  residual: jax.Array  # [V] distribution of the bonus token
  accept: jax.Array  # [N] threshold of coin i; NOT_OFFERED if not compared
  fault: jax.Array  # [] bool: NaN or bad weights, so a step of plain decoding


def settle(
  *,
  node: jax.Array,
  weights: jax.Array,
  p: jax.Array,
  accept: jax.Array,
  fault: jax.Array,
) -> Decision:
  """Normalises the residual, and replaces a fault by a step of plain decoding.

  After a fault no node is accepted. The bonus token is then drawn from the
  positive finite entries of the target's probabilities after the root; if there
  are none, from all tokens alike.

  Args:
    node: [] The accepted node.
    weights: [V] Its residual, up to a factor. Invalid weights are a fault.
    p: [N, V] Target probabilities.
    accept: [N] Thresholds.
    fault: [] Whether a fault was found before.
  """
  total = jnp.sum(weights)
  fault |= ~jnp.isfinite(total) | (jnp.min(weights) < 0)
  # If all weights are 0 without a fault, rounding has emptied the residual
  # after rejections of probability 0.
  law = jnp.where(total > 0, weights / jnp.where(total > 0, total, 1), p[node])
  return Decision(
    node=jnp.where(fault, ROOT, node).astype(jnp.int32),
    residual=jnp.where(fault, probs.finite(p[ROOT]), law),
    accept=jnp.where(fault, NOT_OFFERED, accept),
    fault=fault,
  )
