"""The definition of a proposal: a way to draw the children of a node.

The distribution q_j of the j-th sibling may depend on the earlier siblings.
Outside the siblings' tokens it must be a multiple of the draft's distribution
q. So K + K^2 numbers describe the distributions of K siblings:

    q_j(x) = scale_j * q(x)     if x is not the token of a sibling
    q_j(t_i) = at[j, i]         at the token of the i-th sibling

Axes: K or k siblings, V vocabulary.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable

import jax
import numpy as np

# The token of a node that was not drawn, because no token of positive
# probability was left, or because its parent was not drawn.
INVALID = -1

# `Proposal.rest_from` of a proposal that does not use `rest`.
NEVER = 1 << 30


@jax.tree_util.register_static
@dataclasses.dataclass(frozen=True, kw_only=True)
class Proposal:
  """One way to draw the children of a node.

  Attributes:
    draw: `(key, q [V], k) -> tokens [k]`: int32 tokens of k siblings, in draw
      order. INVALID if no token of positive probability is left.
    laws: `(q_at [K], rest [], exists [K]) -> (scale [K], at [K, K])`: the
      distributions of siblings that were drawn in this order. `q_at` is q at
      their tokens, and `rest` the total probability of all other tokens.
    following: `(q [V], drawn, k) -> [V]`, in NumPy: the distribution of the
      next of k siblings after the tuple `drawn`; zeros if none can be drawn.
      This is the definition that the certificate enumerates, and against which
      `draw` and `laws` are tested.
    rest_from: Index of the first sibling with a distribution that uses `rest`.
      For at most this many siblings, `rest` may be arbitrary.
    nested: Whether the first j of k siblings have the distribution of j
      siblings. Then one draw serves nodes with different numbers of children.
    ranks: Whether `draw` only ranks tokens by q. The draft then has temperature
      1 by default, since low temperatures make unlikely tokens equal, with
      probability 0.
    distinct: Whether siblings always have different tokens.
    name: The proposal's name, unless it is imported by name; see `resolve`.
  """

  draw: Callable[[jax.Array, jax.Array, int], jax.Array]
  laws: Callable[..., tuple[jax.Array, jax.Array]]
  following: Callable[[np.ndarray, tuple[int, ...], int], np.ndarray]
  rest_from: int = 0
  nested: bool = False
  ranks: bool = False
  distinct: bool = False
  name: str = ""
