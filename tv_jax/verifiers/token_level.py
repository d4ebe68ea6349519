"""Token-level verification: recursive rejection sampling, from the root down.

This is Algorithm 2 of the traversal's paper, as in SpecInfer, EAGLE and
Sequoia: RRS or RRSw, depending on the proposal. On a chain it is vanilla
speculative decoding (Algorithm 1). Every node starts with the residual g = p. A
child is offered with its entry probability, and each rejected child changes g.
"""

from tv_jax.verifiers import levels
from tv_jax.verifiers.base import Draft, Offers, Verifier
from tv_jax.verifiers.walk import DOWN


def offers(draft: Draft) -> Offers:
  """Computes the offers of all nodes."""
  return levels.token_level_offers(draft)


RULE = Verifier(
  name="token_level",
  offers=offers,
  walk=DOWN,
  by_path=True,
)
