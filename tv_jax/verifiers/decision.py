"""What a verifier takes, and what it returns.

Axes: N nodes, V vocabulary.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable

import jax
import jax.numpy as jnp

from tv_jax import tree as tree_lib
from tv_jax.proposals import Proposal

# The threshold of a coin that was not tossed: no probability.
NOT_OFFERED = -1.0

# `Verifier.direction`.
DOWN, UP = "down", "up"


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True, kw_only=True)
class Decision:
  """What was decided about one drafted tree."""

  node: jax.Array  # [] int32 the accepted node; the root: nothing was accepted
  residual: jax.Array  # [V] the law of the bonus token
  accept: jax.Array  # [N] what coin i was compared with, or NOT_OFFERED; longer
  # where the rule wants more coins
  fault: jax.Array  # [] bool: a NaN was met; one plain step instead


Shape = tree_lib.Tree | tree_lib.Topology
Laws = jax.Array
# `(tree, proposal, tokens [N], q [N, V], p [N, V], eta [N]) -> Decision`
Decide = Callable[[Shape, Proposal, jax.Array, Laws, Laws, jax.Array], Decision]
# `(tree, proposal, tokens, q, p) -> [N]`
StopLaw = Callable[[Shape, Proposal, jax.Array, Laws, Laws], jax.Array]


@dataclasses.dataclass(frozen=True, kw_only=True)
class Verifier:
  """A verification rule, and where it is defined.

  Attributes:
    decide: `(tree, proposal, tokens [N], q [N, V], p [N, V], eta [N]) ->
      Decision`. `q[v]` and `p[v]` are the laws of the token after node v, the
      former before any adjustment for siblings; `eta` are uniforms in [0, 1).
    stop_law: `(tree, proposal, tokens, q, p) -> [N]`: the chance of each node
      to be the accepted one, given the draft; None if it has no closed form.
    both: `(tree, proposal, tokens, q, p) -> (decide, stop_law)`: both from one
      look at the laws, as functions of eta, and of nothing. `from_offers` makes
      it, and what is so made can give no unsound decision.
    name: What it is called where nothing else names it; see `table.resolve`.
    direction: `DOWN` if it offers a node's children in draw order and goes to
      the one that is taken, `UP` if it offers nodes in post-order, until one is
      taken; "" for any other walk. The report draws the first two.
    defined_on: `tree -> str | None`: why the rule is not defined on a tree, as
      what follows its name in a message; None where it is. It is given an
      `Adaptive` where that shapes the trees. `chains_only` is one. None: it is
      defined on all.
    proposals: Names of the proposals that it is defined for; empty: all.
    by_path: Whether the chance to accept a node or one below it depends on what
      was drawn on its path and before it alone, not on what else hangs in the
      tree, where siblings are drawn one by one.
    static_only: Whether the tree must be known when the rule is compiled. If
      not, it takes a traced `Topology` as well, and so adaptive trees.
    coins: `tree -> int`: how many coins it wants beside one a node. `eta` and
      `Decision.accept` are then so much longer. None: no more. It is given an
      `Adaptive` where that shapes the trees.
  """

  decide: Decide
  stop_law: StopLaw | None = None
  both: Callable[..., tuple[Callable, Callable]] | None = None
  name: str = ""
  direction: str = ""
  defined_on: (
    Callable[[tree_lib.Tree | tree_lib.Adaptive], str | None] | None
  ) = None
  proposals: tuple[str, ...] = ()
  by_path: bool = False
  static_only: bool = True
  coins: Callable[[tree_lib.Tree | tree_lib.Adaptive], int] | None = None

  def num_coins(self, tree: tree_lib.Tree | tree_lib.Adaptive) -> int:
    """Returns the length of `eta`, on this tree."""
    return len(tree) + (self.coins(tree) if self.coins else 0)


def chains_only(tree: tree_lib.Tree | tree_lib.Adaptive) -> str | None:
  """Says why a rule is not defined off chains: a `Verifier.defined_on`."""
  if tree.is_chain:
    return None
  return (
    f"is defined for chains only, and the tree is {tree!r}: give"
    f' tree="chain:{tree.max_depth}", or another verifier'
  )


def settle(
  *,
  node: jax.Array,
  weights: jax.Array,
  p: jax.Array,
  accept: jax.Array,
  fault: jax.Array,
) -> Decision:
  """Makes the decision for `node`, its residual given as weights [V].

  After a fault nothing is accepted and the bonus comes from what is finite in
  the root's own law: one step of plain decoding. `fault` says that one was met
  on the way; another may show only now, in the weights.
  """
  total = jnp.sum(weights)
  fault |= ~jnp.isfinite(total)
  root = p[tree_lib.ROOT]
  root = jnp.where((root > 0) & (root < jnp.inf), root, 0)
  whole = jnp.sum(root)
  plain = jnp.where(
    whole > 0, root / jnp.where(whole > 0, whole, 1), 1 / len(root)
  )
  # Nothing left without a fault is rounding, after rejections that had no
  # chance.
  law = jnp.where(total > 0, weights / jnp.where(total > 0, total, 1), p[node])
  return Decision(
    node=jnp.where(fault, tree_lib.ROOT, node).astype(jnp.int32),
    residual=jnp.where(fault, plain, law),
    accept=jnp.where(fault, NOT_OFFERED, accept),
    fault=fault,
  )
