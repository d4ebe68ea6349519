"""A verification rule, with its decisions and its stop law.

The stop law is the distribution of the accepted node, given the draft.

Axes: N nodes, V vocabulary.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable

import jax

from tv_jax.io.errors import UserError
from tv_jax.proposals import Proposal
from tv_jax.tree import Tree
from tv_jax.verifiers import offers as offers_lib
from tv_jax.verifiers.decision import Decision
from tv_jax.verifiers.offers import UP, Offers, Order

# `(tree, proposal, tokens [N], q [N, V], p [N, V], eta [N]) -> Decision`
Decide = Callable[
  [Tree, Proposal, jax.Array, jax.Array, jax.Array, jax.Array], Decision
]


def _nowhere(tree: Tree) -> None:
  """Refuses no tree. It is not a lambda, so that rules can be pickled."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class Verifier:
  """A verification rule, with the trees and proposals that it supports.

  A rule has either `offers`, or a `decision` function. Only a rule with offers
  has a stop law.

  Attributes:
    name: The rule's name, unless it is imported by name; see `resolve`.
    offers: `(tree, proposal, tokens, q, p) -> Offers`: the coin-independent
      part of the rule.
    walk: How nodes are offered: `DOWN`, `UP`, or a function that returns the
      order. See `verifiers/offers.py`.
    decision: `(tree, proposal, tokens, q, p, eta) -> Decision`, for a rule
      without offers.
    refuses: `tree -> str | None`: the reason why the rule is not defined on a
      tree, worded to follow the rule's name; None if it is defined.
    proposals: Names of the proposals that the rule supports; empty for all.
    by_path: Whether P(the accepted node is v or below v) depends only on the
      tokens on v's path and on their elder siblings. Then `tune` can evaluate
      smaller trees on traces of a larger one, if the proposal is `nested`.
  """

  name: str = ""
  offers: Callable[..., Offers] | None = None
  walk: str | Order = UP
  decision: Decide | None = None
  refuses: Callable[[Tree], str | None] = _nowhere
  proposals: tuple[str, ...] = ()
  by_path: bool = False

  def __post_init__(self):
    """Refuses a rule that has both `offers` and `decision`, or neither."""
    if bool(self.offers) == bool(self.decision):
      raise UserError(f"verifier {self.name!r}: give offers, or a decision")

  def decide(
    self,
    tree: Tree,
    proposal: Proposal,
    tokens: jax.Array,
    q: jax.Array,
    p: jax.Array,
    eta: jax.Array,
    offers: Offers | None = None,
  ) -> Decision:
    """Decides which node of a drafted tree is accepted.

    Args:
      tree: The tree.
      proposal: How siblings were drawn.
      tokens: [N] int32 Token of each node. The root's is ignored. INVALID if
        none could be drawn.
      q: [N, V] Draft probabilities after each node, before any adjustment for
        siblings. Rows of leaves are not read.
      p: [N, V] Target probabilities after each node.
      eta: [N] Uniforms in [0, 1), one for each node.
      offers: The rule's offers on this draft, if already computed.
    """
    if self.decision:
      return self.decision(tree, proposal, tokens, q, p, eta)
    assert self.offers
    offers = offers or self.offers(tree, proposal, tokens, q, p)
    return offers_lib.decide(self.walk, offers, tree, tokens, p, eta)

  def stop_law(
    self,
    tree: Tree,
    proposal: Proposal,
    tokens: jax.Array,
    q: jax.Array,
    p: jax.Array,
    offers: Offers | None = None,
  ) -> jax.Array:
    """Returns each node's probability [N] to be accepted, given the draft.

    For the arguments see `decide`.

    Raises:
      ValueError: The rule has no offers.
    """
    if not self.offers:
      raise UserError(f"verifier {self.name!r} has no offers: no stop law")
    offers = offers or self.offers(tree, proposal, tokens, q, p)
    return offers_lib.stop_law(self.walk, offers, tree, tokens)


def chains_only(tree: Tree) -> str | None:
  """Refuses trees that are not chains; a function for `Verifier.refuses`."""
  if tree.is_chain:
    return None
  return (
    f"is defined for chains only, and the tree is {tree!r}: give"
    f' tree="chain:{tree.max_depth}", or another verifier'
  )
