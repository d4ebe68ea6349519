"""Traversal verification.

Weng et al., "Traversal Verification for Speculative Tree Decoding" (NeurIPS
2025), Algorithm 3: one node is offered after the other, children before
parents, and what is left of the tree is refreshed after each rejection. A node
starts with g = its entry times p, and is offered with what is left of that. The
accepted node is the first in post-order with eta < mass.
"""

from tv_jax.tree import Tree
from tv_jax.verifiers import levels, loop
from tv_jax.verifiers.offers import Offers
from tv_jax.verifiers.verifier import Verifier


def offers(tree, *draft) -> Offers:
  """Looks at all nodes at once; one by one where the tree is an argument."""
  form = levels if isinstance(tree, Tree) else loop
  return form.offers(tree, *draft, inherits=True)


RULE = Verifier(
  name="traversal", offers=offers, by_path=True, static_only=False
)
