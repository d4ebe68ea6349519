"""What a way to draw siblings is, and the law that each was drawn from.

Axes: K siblings, V vocabulary. The j-th sibling's law q_j may depend on the
earlier siblings. Off the siblings' own tokens it is always a multiple of the
base law q, so that no verifier needs it written out:

    q_j(x) = scale_j * q(x)     for x that is no sibling's token
    q_j(t_i) = at[j, i]         for the i-th sibling's token
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable

import jax
import numpy as np

# The token of a node that could not be drawn: the draft's support had fewer
# tokens than the node has children, or the node hangs below such a one.
INVALID = -1

# `Proposal.rest_from` of a proposal that never looks at `rest`.
NEVER = 1 << 30


@dataclasses.dataclass(frozen=True, kw_only=True)
class Proposal:
  """One way to draw the children of a node.

  Attributes:
    draw: `(key, q [V], k) -> tokens [k]` int32, in draw order. INVALID where
      the support is exhausted, never a token of probability 0.
    laws: `(q_at [K], rest [], exists [K]) -> (scale [K], at [K, K])`: the laws
      of siblings drawn in this order, where `q_at` is q on their tokens and
      `rest` the mass of q off them. For one node; vmap over many.
    following: `(q [V], drawn, k) -> [V]` in NumPy: the law of the next sibling
      of `k` after the tuple `drawn`, all zeros if there is none to draw. The
      definition that `draw` and `laws` are tested against, and that the
      certificate enumerates.
    rest_from: The first sibling whose law depends on `rest`: whoever asks for
      the laws of earlier ones only may pass anything for it.
    nested: Whether the first j of k siblings are drawn as j siblings are: then
      nodes with different numbers of children can be drawn for together.
    ranks: Whether `draw` only ranks q: the draft is then left untempered, for
      a low temperature makes equals, zeros, of all but a few tokens.
    distinct: Whether siblings never hold the same token.
    name: What it is called where nothing else names it; see `resolve`.
  """

  draw: Callable[[jax.Array, jax.Array, int], jax.Array]
  laws: Callable[..., tuple[jax.Array, jax.Array]]
  following: Callable[[np.ndarray, tuple[int, ...], int], np.ndarray]
  rest_from: int = 0
  nested: bool = False
  ranks: bool = False
  distinct: bool = False
  name: str = ""
