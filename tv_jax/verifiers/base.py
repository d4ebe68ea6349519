"""The data of verification: a draft, a rule's offers, a decision, a rule.

Axes: N nodes, V vocabulary.
"""

from __future__ import annotations

import dataclasses
import inspect
from collections.abc import Callable
from typing import NamedTuple

import jax

from tv_jax.io.errors import UserError
from tv_jax.proposals import Proposal
from tv_jax.tree import Tree

# `Decision.threshold` of a node that was not offered; outside [0, 1].
NOT_OFFERED = -1.0


class Draft(NamedTuple):
  """A drafted tree, with both models' probabilities.

  It is a pytree: the arrays are its leaves, and tree and proposal are static.
  So `jax.jit` and `jax.vmap` take it as an argument.

  Attributes:
    tree: The tree. Node 0 is the root, the last committed token.
    proposal: How siblings were drawn.
    tokens: [N] int32 Token of each node. The root's is ignored. INVALID if none
      could be drawn, and then at all nodes below, too.
    q: [N, V] Draft probabilities of the token after each node, before any
      adjustment for siblings. Rows of leaves are arbitrary.
    p: [N, V] Target probabilities of the token after each node.
  """

  tree: Tree
  proposal: Proposal
  tokens: jax.Array
  q: jax.Array
  p: jax.Array


class Offers(NamedTuple):
  """The coin-independent part of a rule on one draft.

  Attributes:
    chance: [N] Probability to accept a node when it is offered. The root's is
      not used, but a NaN anywhere is a fault.
    offered: [N] bool: Whether the node can be offered at all.
    residual: `node [] -> [V]`: Distribution of the bonus token after a node, up
      to a factor. Called once, for the accepted node.
  """

  chance: jax.Array
  offered: jax.Array
  residual: Callable[[jax.Array], jax.Array]


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True, kw_only=True)
class Decision:
  """The outcome of verifying one drafted tree."""

  node: jax.Array  # [] int32 the accepted node; ROOT if none was accepted
  residual: jax.Array  # [V] distribution of the bonus token
  threshold: jax.Array  # [N] the value coin i is compared with, or NOT_OFFERED
  fault: jax.Array  # [] bool: NaN or bad weights, so a step of plain decoding


@dataclasses.dataclass(frozen=True, kw_only=True)
class Walk:
  """An order in which nodes are offered, and the results for offers.

  Attributes:
    decide: `(offers, draft, eta) -> Decision`.
    stopping: `(offers, draft) -> [N]`: each node's probability to be accepted.
  """

  decide: Callable[[Offers, Draft, jax.Array], Decision]
  stopping: Callable[[Offers, Draft], jax.Array]


# `(draft, eta [N]) -> Decision`
Decide = Callable[[Draft, jax.Array], Decision]


@dataclasses.dataclass(frozen=True, kw_only=True)
class Verifier:
  """A verification rule, with the trees and proposals that it supports.

  A rule has either `offers` and a `walk`, or a `decision` function. Only a rule
  with offers has a stopping distribution.

  Attributes:
    name: The rule's name, unless it is imported by name; see `resolve`.
    offers: `draft -> Offers`: the coin-independent part of the rule.
    walk: How nodes are offered: `DOWN` or `UP`; see walk.py.
    decision: `(draft, eta) -> Decision`, for a rule without offers.
    refuses: `tree -> str | None`: the reason why the rule is not defined on a
      tree, worded to follow the rule's name. None for a rule of all trees.
    proposals: Names of the proposals that the rule supports; empty for all.
    by_path: The probability that the accepted node is v or below v depends on
      nothing but the tokens on v's path and their elder siblings. Then `tune`
      can evaluate smaller trees on cycles of a larger one, if the proposal is
      `nested`.
  """

  name: str = ""
  offers: Callable[[Draft], Offers] | None = None
  walk: Walk | None = None
  decision: Decide | None = None
  refuses: Callable[[Tree], str | None] | None = None
  proposals: tuple[str, ...] = ()
  by_path: bool = False

  def __post_init__(self):
    """Refuses a rule of neither form or of both, and wrong arguments."""
    if bool(self.offers) == bool(self.decision):
      raise UserError(f"verifier {self.name!r}: give offers, or a decision")
    if bool(self.offers) != isinstance(self.walk, Walk):
      raise UserError(
        f"verifier {self.name!r}: give a walk with offers, walk=DOWN or walk=UP"
      )
    if self.offers:
      _check_arguments(self.offers, "draft")
    if self.decision:
      _check_arguments(self.decision, "draft", "eta")

  def decide(
    self, draft: Draft, eta: jax.Array, offers: Offers | None = None
  ) -> Decision:
    """Decides which node of a drafted tree is accepted.

    Args:
      draft: The drafted tree.
      eta: [N] Uniforms in [0, 1), one for each node.
      offers: The rule's offers on this draft, if already computed.
    """
    if self.decision:
      return self.decision(draft, eta)
    assert self.offers
    assert self.walk
    offers = self.offers(draft) if offers is None else offers
    return self.walk.decide(offers, draft, eta)

  def stopping(self, draft: Draft, offers: Offers | None = None) -> jax.Array:
    """Returns each node's probability [N] to be accepted, given the draft.

    Args:
      draft: The drafted tree.
      offers: The rule's offers on this draft, if already computed.

    Raises:
      UserError: The rule has no offers.
    """
    if not (self.offers and self.walk):
      raise UserError(
        f"verifier {self.name!r} has no offers: no stopping distribution"
      )
    offers = self.offers(draft) if offers is None else offers
    return self.walk.stopping(offers, draft)


def _check_arguments(function: Callable, *wanted: str) -> None:
  """Raises UserError if a rule's function cannot take these arguments."""
  signature = inspect.signature(function)
  try:
    signature.bind(*wanted)
  except TypeError:
    name = getattr(function, "__name__", repr(function))
    if "eta" in wanted and len(signature.parameters) == 1:
      raise UserError(
        f"the rule's function {name}{signature} takes no coins: if it returns"
        f" Offers, give Verifier(offers={name}, walk=DOWN); a decision is a"
        " function of (draft, eta)"
      ) from None
    raise UserError(
      f"the rule's function {name}{signature} should be {name}"
      f"({', '.join(wanted)}): its draft has .tree, .proposal, .tokens, .q and"
      " .p"
    ) from None


def chains_only(tree: Tree) -> str | None:
  """Refuses trees that are not chains; a function for `Verifier.refuses`."""
  if tree.is_chain:
    return None
  return (
    f"is defined for chains only, and the tree is {tree!r}: give"
    f' tree="chain:{tree.max_depth}", or another verifier'
  )
