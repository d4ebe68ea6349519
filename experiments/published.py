"""Token-level verification as EAGLE-1's and Spec-Bench's code has it.

NOT LOSSLESS. Below a node none of whose children was tried, a leaf of the tree,
the bonus token is drawn from the target's law at temperature 1, whatever the
temperature is (`evaluate_posterior`: the logits of the accepted node do not go
through the logits processor there). It is here to show what that does, in
experiments/as_published.py, and in no other table.
"""

from __future__ import annotations

import dataclasses

import jax.numpy as jnp

from tv_jax.tree import NO_CHILD
from tv_jax.verifiers import DOWN, VERIFIERS, Verifier

_SOUND = VERIFIERS["token_level"]


def at_temperature(temperature: float) -> Verifier:
  """The rule, for laws of this temperature: p^temperature is that at 1."""

  def decide(tree, proposal, tokens, q, p, eta):
    made = _SOUND.decide(tree, proposal, tokens, q, p, eta)
    children = jnp.asarray(tree.children)[made.node]
    leaf = ~jnp.any((children != NO_CHILD) & (tokens[children] >= 0))
    law = p[made.node] ** temperature
    bonus = jnp.where(leaf & ~made.fault, law / jnp.sum(law), made.residual)
    return dataclasses.replace(made, residual=bonus)

  return Verifier(decide=decide, stop_law=_SOUND.stop_law, direction=DOWN)


AT_0_6 = at_temperature(0.6)
AT_1 = at_temperature(1.0)
