"""Token-level verification: recursive rejection sampling, from the root down.

This is Algorithm 2 of the traversal's paper, as in SpecInfer, EAGLE and
Sequoia: RRS or RRSw, depending on the proposal. On a chain it is vanilla
speculative decoding (Algorithm 1). Every node starts with the residual g = p. A
child is offered with its entry probability, and each rejected child changes g.
"""

from tv_jax.verifiers import levels
from tv_jax.verifiers.offers import DOWN
from tv_jax.verifiers.verifier import Verifier

RULE = Verifier(
  name="token_level",
  offers=levels.token_level_offers,
  walk=DOWN,
  by_path=True,
)
