"""Traversal verification.

Weng et al., "Traversal Verification for Speculative Tree Decoding" (NeurIPS
2025), Algorithm 3. Nodes are offered in post-order, children before parents. A
node starts with the residual g = entry * p, where `entry` is the probability to
enter it from its parent. Each rejected child changes g. The node is offered
after its children, with the mass of g as its acceptance probability. The first
node in post-order with eta < mass is accepted.
"""

from tv_jax.tree import Tree
from tv_jax.verifiers import levels, loop
from tv_jax.verifiers.offers import Offers
from tv_jax.verifiers.verifier import Verifier


def offers(tree, *draft) -> Offers:
  """Computes offers in batches of nodes, or in a loop for a traced tree."""
  if isinstance(tree, Tree):
    return levels.traversal_offers(tree, *draft)
  return loop.offers(tree, *draft, inherits=True)


RULE = Verifier(
  name="traversal", offers=offers, by_path=True, static_only=False
)
