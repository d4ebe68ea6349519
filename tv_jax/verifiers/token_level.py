"""Token-level verification: recursive rejection sampling, from the root down.

This is Algorithm 2 of the traversal's paper, as in SpecInfer, EAGLE and
Sequoia: RRS or RRSw, depending on the proposal. On a chain it is vanilla
speculative decoding (Algorithm 1). Every node starts with the residual g = p. A
child is offered with its entry probability, and each rejected child changes g.
"""

from tv_jax.tree import Tree
from tv_jax.verifiers import levels, loop
from tv_jax.verifiers.offers import DOWN, Offers
from tv_jax.verifiers.verifier import Verifier


def offers(tree, *draft) -> Offers:
  """Computes offers in batches of nodes, or in a loop for a traced tree."""
  if isinstance(tree, Tree):
    return levels.token_level_offers(tree, *draft)
  return loop.offers(tree, *draft, inherits=False)


RULE = Verifier(
  name="token_level",
  offers=offers,
  walk=DOWN,
  by_path=True,
  static_only=False,
)
