"""Whether `draw` draws what `following` says.

Tuples of siblings are counted over many keys. One of chance 0 is a fault at
once: a wrong token, INVALID before the support is exhausted, a token after it.
For the others, by each of their first siblings, how far a count may be from its
mean is bounded by Chernoff's inequality, which holds for every number of draws:

    P(X >= x or X <= x) <= exp(-n KL(x / n, chance))      on either side

and the bounds are added up over all that is counted, so that a proposal that
is right is called wrong with a chance below `ALARM`, whatever it is.

Axes: L laws, S draws of each, K siblings, V vocabulary.
"""

import jax
import numpy as np

from tv_jax.certify import compiling, words
from tv_jax.certify.siblings import Family
from tv_jax.engine import contract
from tv_jax.proposals import INVALID, Proposal

# The chance to call a proposal wrong that is right.
ALARM = 1e-7


def draw(
  proposal: Proposal, laws: np.ndarray, k: int, count: int, seed: int
) -> np.ndarray:
  """Draws [L, S, k] from laws [L, V], under vmap and jit.

  Raises:
    ValueError: They are no int32 [k].
  """
  if told := "; ".join(contract.drawn(proposal, k, laws.dtype, laws.shape[1])):
    raise ValueError(told)

  def many(key, q):
    keys = jax.random.split(key, count)
    return jax.vmap(lambda one: proposal.draw(one, q, k))(keys)

  keys = jax.random.split(jax.random.key(seed), len(laws))
  return np.asarray(compiling.jit(jax.vmap(many))(keys, laws))


def judge(own: Family, drawn: np.ndarray) -> tuple[int, float, str]:
  """Holds draws [S, k] against a family.

  Returns:
    How many numbers were looked at; the least bound on the chance of one of
    them, 0 for what cannot be; and that one, in words.
  """
  V, least, told, looked = len(own.q), 1.0, "", 0
  what = f"draw(key, q, {own.k}) from q = {words.row(own.q)}"
  if (outside := (drawn != INVALID) & ((drawn < 0) | (drawn >= V))).any():
    return 0, 0.0, f"{what} gave {drawn[outside][0]}: no token, nor INVALID"
  for length in range(1, own.k + 1):
    seen = _count(drawn[:, :length])
    expected = own.table(length)
    for tokens in seen:
      if tokens not in expected:
        told = f"{what} gave {words.siblings(tokens)}"
        return looked, 0.0, f"{told}, which following rules out"
    hits = np.array([seen.get(tokens, 0) for tokens in expected])
    chance = np.minimum([*expected.values()], 1)
    bound = 2 * np.exp(-len(drawn) * divergence(hits / len(drawn), chance))
    looked += len(hits)
    worst = int(bound.argmin())
    if bound[worst] < least:
      least = float(bound[worst])
      shown = words.siblings([*expected][worst])
      told = (
        f"{what} gave {shown}{' first' if length < own.k else ''}"
        f" {hits[worst]} times in {len(drawn)}, by following"
        f" {chance[worst] * len(drawn):.1f}"
      )
  return looked, least, told


def _count(drawn):
  """How often each tuple came."""
  drawn = drawn.astype(np.int64)
  span = drawn.max() - INVALID + 1
  code = (drawn - INVALID) @ span ** np.arange(drawn.shape[1])
  _, first, counts = np.unique(code, return_index=True, return_counts=True)
  tuples = map(tuple, drawn[first].tolist())
  return dict(zip(tuples, counts.tolist(), strict=True))


def divergence(x: np.ndarray, p: np.ndarray) -> np.ndarray:
  """Returns KL(x, p) of coins with chances x, and p above 0, elementwise."""

  def term(a, b):
    none = a <= 0
    safe = np.where(none, 1, b)
    with np.errstate(divide="ignore"):
      return a * (np.log(np.where(none, 1, a)) - np.log(safe))

  return np.maximum(term(x, p) + term(1 - x, 1 - p), 0)
