"""How siblings are drawn from the draft law, and the law each was drawn from.

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
import jax.numpy as jnp
import numpy as np

from tv_jax import names, probs

# The token of a node that could not be drawn: the draft's support had fewer
# tokens than the node has children, or the node hangs below such a one.
INVALID = -1

# More siblings than these are drawn by a single race, on any machine.
FEW = 8

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


def _draw_without_replacement(key, q, k):
  """Gumbel top-k, kept in the order of the perturbed logits.

  On a CPU it is cheaper to draw few of many tokens one after the other.
  """

  def race(key, q):
    noise = jax.random.gumbel(key, q.shape, q.dtype, mode="high")
    return _best(jnp.log(q) + noise, k, -jnp.inf)

  def draws(key, q):
    tokens, found = probs.draw_distinct(key, q, k)
    return jnp.where(found, tokens, INVALID)

  if k > FEW or 4 * k * k > len(q):
    return race(key, q)
  return jax.lax.platform_dependent(key, q, cpu=draws, default=race)


def _laws_without_replacement(q_at, rest, exists):
  K = len(q_at)
  q_at = jnp.where(exists, q_at, 0)
  left = [rest]
  for value in q_at[::-1]:
    left.append(left[-1] + value)
  # The first sibling's law is q itself.
  left = jnp.stack([jnp.ones_like(rest), *left[-2:0:-1]])
  scale = _over(left)
  later = np.arange(K)[:, None] <= np.arange(K)  # [j, i]: i not before j
  return scale, jnp.where(later, scale[:, None] * q_at[None, :], 0)


def _following_without_replacement(q, drawn, k):
  del k
  left = q.copy()
  left[[token for token in drawn if token != INVALID]] = 0
  return _over_sum(left) if drawn else q


def _draw_with_replacement(key, q, k):
  return probs.draw(key, q, (k,))


def _laws_with_replacement(q_at, rest, exists):
  del rest
  K = len(q_at)
  at = jnp.broadcast_to(jnp.where(exists, q_at, 0)[None, :], (K, K))
  return jnp.ones_like(q_at), at


def _following_with_replacement(q, drawn, k):
  del drawn, k
  return q


def _draw_top_k(key, q, k):
  del key
  return _best(q, k, 0)


def _laws_top_k(q_at, rest, exists):
  del rest
  at = jnp.diag(exists.astype(q_at.dtype))
  return jnp.zeros_like(q_at), at


def _following_top_k(q, drawn, k):
  del k
  return _one_hot_of_best(q, len(drawn))


def _draw_sample_then_top(key, q, k):
  top = _best(q, k - 1, 0)
  # An absent top token (INVALID) must leave q alone, and -1 would wrap.
  left = q.at[jnp.where(top == INVALID, len(q), top)].set(0, mode="drop")
  sampled = jnp.where(jnp.any(left > 0), probs.draw(key, left), INVALID)
  return jnp.concatenate([sampled[None], top])


def _laws_sample_then_top(q_at, rest, exists):
  K = len(q_at)
  if K == 1:  # no top tokens are held back: the law is q itself
    return _laws_with_replacement(q_at, rest, exists)
  q_at = jnp.where(exists, q_at, 0)
  left = rest + q_at[0]
  scale = _over(left)
  first = np.arange(K) == 0
  at = jnp.diag(jnp.where(first, scale * q_at, exists.astype(q_at.dtype)))
  return jnp.where(first, scale, 0), at


def _following_sample_then_top(q, drawn, k):
  if drawn:
    return _one_hot_of_best(q, len(drawn) - 1)
  if k == 1:
    return q
  left = q.copy()
  left[_ranking(q)[: k - 1]] = 0
  return _over_sum(left)


def exhausted(dtype) -> float:
  """So little of q is left that no sibling is offered from it: 5e-31 or less.

  Float32 could not hold what q is then multiplied with. Whether this is so
  depends on the earlier siblings alone, never on a sibling's own token, so that
  leaving it out costs nothing but its chance.
  """
  return float(jnp.finfo(dtype).tiny) ** 0.8


def _over(left):
  """1 / left; 0, for no sibling at all, where next to nothing is left."""
  none = left <= exhausted(left.dtype)
  return jnp.where(none, 0, 1 / jnp.where(none, 1, left))


def _best(score, k, floor):
  """[k] ids of the largest scores, lowest id first among equals."""
  k_or_all = min(k, len(score))
  value, token = jax.lax.top_k(score, k_or_all)
  token = jnp.where(value > floor, token.astype(jnp.int32), INVALID)
  return jnp.pad(token, (0, k - k_or_all), constant_values=INVALID)


def _ranking(q):
  return np.argsort(-q, kind="stable")


def _one_hot_of_best(q, place):
  law = np.zeros_like(q)
  if place < len(q):
    token = _ranking(q)[place]
    law[token] = q[token] > 0
  return law


def _over_sum(weights):
  total = weights.sum()
  return weights / total if total > 0 else weights


WITHOUT_REPLACEMENT = Proposal(
  name="without_replacement",
  draw=_draw_without_replacement,
  laws=_laws_without_replacement,
  following=_following_without_replacement,
  nested=True,
  rest_from=1,
  distinct=True,
)
WITH_REPLACEMENT = Proposal(
  name="with_replacement",
  draw=_draw_with_replacement,
  laws=_laws_with_replacement,
  following=_following_with_replacement,
  nested=True,
  rest_from=NEVER,
)
TOP_K = Proposal(
  name="top_k",
  draw=_draw_top_k,
  laws=_laws_top_k,
  following=_following_top_k,
  nested=True,
  ranks=True,
  rest_from=NEVER,
  distinct=True,
)
SAMPLE_THEN_TOP = Proposal(
  name="sample_then_top",
  draw=_draw_sample_then_top,
  laws=_laws_sample_then_top,
  following=_following_sample_then_top,
  rest_from=0,
  distinct=True,
)

PROPOSALS = {
  one.name: one
  for one in (WITHOUT_REPLACEMENT, WITH_REPLACEMENT, TOP_K, SAMPLE_THEN_TOP)
}


def resolve(proposal: Proposal | str) -> Proposal:
  """The proposal that is meant, with a name.

  Args:
    proposal: A name of `PROPOSALS`; "package.module:name" of a `Proposal`,
      imported with the current directory in sight; or a `Proposal`.

  Returns:
    The proposal. It is called as it was asked for by text; else "module:name",
    where a module holds it; else by its own `name`.

  Raises:
    ValueError: Nothing is meant by it.
  """
  found, name = proposal, None
  if isinstance(proposal, str):
    found = names.find(PROPOSALS, proposal, "proposal")
    name = proposal
  if not isinstance(found, Proposal):
    raise ValueError(
      f"proposal {proposal!r}: give a name, module:name, or a Proposal"
    )
  if found in PROPOSALS.values():
    return found
  name = name or names.of(found) or found.name or names.of(found.draw)
  if not name:
    raise ValueError(
      f'proposal {proposal!r} has no name: give it one, Proposal(name="mine")'
    )
  return dataclasses.replace(found, name=name)
