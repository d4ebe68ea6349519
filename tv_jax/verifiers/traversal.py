"""Traversal verification.

Weng et al., "Traversal Verification for Speculative Tree Decoding" (NeurIPS
2025), Algorithm 3. Nodes are offered in post-order, children before parents. A
node starts with the residual g = entry * p, where `entry` is the probability to
enter it from its parent. Each rejected child changes g. The node is offered
after its children, with the mass of g as its acceptance probability. The first
node in post-order with eta < mass is accepted.
"""

from tv_jax.verifiers import levels
from tv_jax.verifiers.base import Verifier
from tv_jax.verifiers.walk import UP

RULE = Verifier(
  name="traversal", offers=levels.traversal_offers, walk=UP, by_path=True
)
