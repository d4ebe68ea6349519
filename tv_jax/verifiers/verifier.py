"""A verification rule: its decisions and its stop law.

Axes: N nodes, V vocabulary.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable

import jax

from tv_jax.proposals import Proposal
from tv_jax.tree import Adaptive, Topology, Tree
from tv_jax.verifiers import offers as offers_lib
from tv_jax.verifiers.decision import Decision
from tv_jax.verifiers.offers import UP, Offers, Order

Shape = Tree | Topology
# `(tree, proposal, tokens [N], q [N, V], p [N, V], eta [N]) -> Decision`
Decide = Callable[
  [Shape, Proposal, jax.Array, jax.Array, jax.Array, jax.Array], Decision
]


def _everywhere(tree: Tree | Adaptive) -> None:
  """Refuses no tree. It has a name, so that rules can be pickled."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class Verifier:
  """A verification rule, and where it is defined.

  It has either `offers`, or, with no stop law, a `decision` function.

  Attributes:
    name: What it is called where nothing else names it; see `resolve`.
    offers: `(tree, proposal, tokens, q, p) -> Offers`: what no coin changes.
    walk: `DOWN`, `UP`, or the order in which nodes are offered; see `offers`.
    decision: The function that `decide` calls where there are no offers.
    refuses: `tree -> str | None`: why the rule is not defined on a tree, as
      what follows its name in a message; None where it is. It gets an
      `Adaptive` where that shapes the trees.
    proposals: Names of the proposals that it is defined for; empty: all.
    by_path: Whether the chance to accept a node or one below it depends only on
      what was drawn on its path and before it, where siblings are drawn one by
      one.
    static_only: Whether the tree must be known when the rule is compiled. If
      not, it takes a traced `Topology` as well, and so adaptive trees.
  """

  name: str = ""
  offers: Callable[..., Offers] | None = None
  walk: str | Order = UP
  decision: Decide | None = None
  refuses: Callable[[Tree | Adaptive], str | None] = _everywhere
  proposals: tuple[str, ...] = ()
  by_path: bool = False
  static_only: bool = True

  def __post_init__(self):
    """Refuses a rule without a way to decide, or with two."""
    if bool(self.offers) == bool(self.decision):
      raise ValueError(f"verifier {self.name!r}: give offers, or a decision")

  def decide(
    self,
    tree: Shape,
    proposal: Proposal,
    tokens: jax.Array,
    q: jax.Array,
    p: jax.Array,
    eta: jax.Array,
  ) -> Decision:
    """Decides what is accepted of one drafted tree.

    Args:
      tree: Its shape.
      proposal: How siblings were drawn.
      tokens: [N] int32; the root's is ignored, INVALID where there is none.
      q: [N, V] the draft's laws after each node, before any adjustment for
        siblings. Rows of leaves are not read.
      p: [N, V] the target's laws after each node.
      eta: [N] uniforms in [0, 1).
    """
    if self.decision:
      return self.decision(tree, proposal, tokens, q, p, eta)
    assert self.offers
    offers = self.offers(tree, proposal, tokens, q, p)
    return offers_lib.decide(self.walk, offers, tree, tokens, p, eta)

  def stop_law(
    self,
    tree: Shape,
    proposal: Proposal,
    tokens: jax.Array,
    q: jax.Array,
    p: jax.Array,
  ) -> jax.Array:
    """Returns each node's chance [N] to be the accepted one, given the draft.

    Raises:
      ValueError: The rule has no offers.
    """
    if not self.offers:
      raise ValueError(f"verifier {self.name!r} has no offers: no stop law")
    offers = self.offers(tree, proposal, tokens, q, p)
    return offers_lib.stop_law(self.walk, offers, tree, tokens)


def chains_only(tree: Tree | Adaptive) -> str | None:
  """Says why a rule is not defined off chains: a `Verifier.refuses`."""
  if tree.is_chain:
    return None
  return (
    f"is defined for chains only, and the tree is {tree!r}: give"
    f' tree="chain:{tree.max_depth}", or another verifier'
  )
