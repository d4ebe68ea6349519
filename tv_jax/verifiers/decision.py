"""What a verifier takes and gives, and the one V-sized array that it writes.

Axes: N nodes, K children of a node, V vocabulary.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable

import jax
import jax.numpy as jnp

from tv_jax import tree as tree_lib
from tv_jax.proposals import INVALID, Proposal
from tv_jax.verifiers.residual import Residual, largest, positive

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


# `(tree, proposal, tokens [N], q [N, V], p [N, V], eta [N]) -> Decision`
Decide = Callable[
  [
    tree_lib.Tree | tree_lib.Topology,
    Proposal,
    jax.Array,
    jax.Array,
    jax.Array,
    jax.Array,
  ],
  Decision,
]
# `(tree, proposal, tokens, q, p) -> [N]`
StopLaw = Callable[
  [
    tree_lib.Tree | tree_lib.Topology,
    Proposal,
    jax.Array,
    jax.Array,
    jax.Array,
  ],
  jax.Array,
]


@dataclasses.dataclass(frozen=True, kw_only=True)
class Verifier:
  """A verification rule: everything that there is to say of it.

  Attributes:
    decide: `(tree, proposal, tokens [N], q [N, V], p [N, V], eta [N]) ->
      Decision`. `q[v]` and `p[v]` are the laws of the token after node v, the
      former before any adjustment for siblings; `eta` are uniforms in [0, 1).
    stop_law: `(tree, proposal, tokens, q, p) -> [N]`: the chance of each node
      to be the accepted one, given the draft; None if it has no closed form.
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
    both: `(tree, proposal, tokens, q, p, eta) -> (Decision, [N])`: `decide` and
      `stop_law` at once, where that is less work than one after the other.
      Used of the rules that are here alone, whose decisions need no check.
    loop: A form that takes the same decisions with less work where rows are
      verified one after the other, as on a CPU.
    at_once: Whether a CPU, too, does without that form on chains where laws are
      small: of a rule that passes over all nodes at once, which costs less
      there than a loop's many steps.
    coins: `tree -> int`: how many coins it wants beside one a node. `eta` and
      `Decision.accept` are then so much longer. None: no more. It is given an
      `Adaptive` where that shapes the trees.
  """

  decide: Decide
  stop_law: StopLaw | None = None
  both: Callable[..., tuple[Decision, jax.Array]] | None = None
  name: str = ""
  direction: str = ""
  defined_on: (
    Callable[[tree_lib.Tree | tree_lib.Adaptive], str | None] | None
  ) = None
  proposals: tuple[str, ...] = ()
  by_path: bool = False
  static_only: bool = True
  loop: Verifier | None = None
  at_once: bool = False
  coins: Callable[[tree_lib.Tree | tree_lib.Adaptive], int] | None = None

  def num_coins(self, tree: tree_lib.Tree | tree_lib.Adaptive) -> int:
    """The length of `eta`, on this tree."""
    return len(tree) + (self.coins(tree) if self.coins else 0)


def chains_only(tree: tree_lib.Tree | tree_lib.Adaptive) -> str | None:
  """The `Verifier.defined_on` of a rule for chains alone."""
  if tree.is_chain:
    return None
  return (
    f"is defined for chains only, and the tree is {tree!r}: give"
    f' tree="chain:{tree.max_depth}", or another verifier'
  )


def conclude(
  *,
  node: jax.Array,
  g: Residual,
  tokens: jax.Array,
  q: jax.Array,
  p: jax.Array,
  accept: jax.Array,
  fault: jax.Array,
) -> Decision:
  """The decision for `node`, its residual g given in the step's short form.

  Args:
    node: [] the accepted node.
    g: Its residual, up to scale.
    tokens: [K] its children's tokens.
    q: [N, V] draft laws.
    p: [N, V] target laws.
    accept: [N] thresholds.
    fault: [] whether a NaN was met on the way.
  """
  node = jnp.where(fault, tree_lib.ROOT, node)
  p_row, q_row = p[node], q[node]
  ratio, values = relative(g, fault)
  weights = positive(p_row - jnp.where(ratio > 0, ratio * q_row, 0))
  vocabulary = jnp.arange(p.shape[1], dtype=jnp.int32)
  tokens = jnp.where(fault, INVALID, tokens)
  for token, value in zip(tokens, values, strict=True):
    weights = jnp.where(vocabulary == token, value, weights)
  return settle(node=node, weights=weights, p=p, accept=accept, fault=fault)


def relative(g: Residual, fault: jax.Array) -> tuple[jax.Array, jax.Array]:
  """The ratio and the values with which g / alpha = [p - ratio q]_+.

  So an untouched node's law is p to the last bit, and a leaf's row of q, which
  need not hold anything, has no say.
  """
  alpha = jnp.where(g.alpha > 0, g.alpha, 1)
  ratio, most = g.beta / alpha, largest(g.at.dtype)
  ratio = jnp.where(ratio > most, most, ratio)
  return jnp.where(fault, 0, ratio), g.at / alpha


def settle(
  *,
  node: jax.Array,
  weights: jax.Array,
  p: jax.Array,
  accept: jax.Array,
  fault: jax.Array,
) -> Decision:
  """The decision for `node`, its residual given as weights [V].

  After a fault nothing is accepted and the bonus comes from what is finite in
  the root's own law: one step of plain decoding. `fault` says that one was met
  on the way (`node` and `weights` are the root's then); another may show only
  now, in the accepted node's row.
  """
  weights = jnp.where(fault, finite(weights), weights)
  total = jnp.sum(weights)
  late = ~jnp.isfinite(total)
  # Nothing left without a fault is rounding, after rejections that had no
  # chance; with one, the root's law held nothing finite.
  spare = jnp.where(fault, 1 / len(weights), p[node])
  law = jnp.where(total > 0, weights / jnp.where(total > 0, total, 1), spare)
  fault |= late
  return Decision(
    node=jnp.where(fault, tree_lib.ROOT, node).astype(jnp.int32),
    residual=jnp.where(late, _finite_law(p[tree_lib.ROOT]), law),
    accept=jnp.where(fault, NOT_OFFERED, accept),
    fault=fault,
  )


def _finite_law(row):
  """What is finite in a row, renormalised; uniform if nothing is."""
  row, uniform = finite(row), 1 / len(row)
  total = jnp.sum(row)
  return jnp.where(total > 0, row / jnp.where(total > 0, total, 1), uniform)


def finite(row: jax.Array) -> jax.Array:
  """What is a positive number, and 0 in place of all else."""
  return jnp.where((row > 0) & (row < jnp.inf), row, 0)
