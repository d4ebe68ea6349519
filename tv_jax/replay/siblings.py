"""What the bound asks of the ways to draw k siblings.

Axes: F families, W alphabet, k siblings.

`inverse` is exact: it makes sums over what was drawn equal, in the mean, sums
over all that can be drawn. The others only guide a choice, and may be off.
"""

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

# At which the race of siblings drawn without replacement is looked at.
_TIMES = np.geomspace(0.03, 1e6, 64)


class Siblings(NamedTuple):
  """One way to draw.

  Attributes:
    inverse: `(q [F, W], q_at [F, k], tokens [F, k], exists [F, k]) -> [F, k]`:
      1 / q_i(t_i), and 0 where nothing was drawn.
    elders: Whether an elder counts once more for each later draw, see `share`.
    inside: `(q [F, W], k) -> [F, W + 1]`: the chance that all k children are
      among the first tokens, by the number of these.
    drafted: `(q [F, W], q_at [F, n], k) -> [F, n]`: the chance of a token to be
      among k children.
  """

  inverse: Callable
  elders: bool
  inside: Callable
  drafted: Callable

  def share(self, inverse: np.ndarray, exists: np.ndarray) -> np.ndarray:
    """O [F, m] of the first m children: E[sum of o_i x(t_i)] = sum of x.

    With replacement each draw alone would do (Hansen and Hurwitz, 1943).
    Without, draw i and what was drawn before (Des Raj, 1956):

        x(t_1) + .. + x(t_(i-1)) + x(t_i) / q_i(t_i)

    has that mean, given what was drawn before. This is the mean of all m.
    """
    m = inverse.shape[1]
    later = (m - 1 - np.arange(m)) * self.elders
    return np.where(exists, inverse + later, 0) / m


def _inverse_with(q, q_at, tokens, exists):
  del q, tokens
  return np.where(exists, 1 / np.where(exists, q_at, 1), 0)


def _inverse_without(q, q_at, tokens, exists):
  """What is left of q is a sum, never 1 minus one."""
  rest = q.copy()
  row, place = np.nonzero(exists)
  rest[row, tokens[row, place]] = 0
  left = rest.sum(axis=1)[:, None] + q_at[:, ::-1].cumsum(axis=1)[:, ::-1]
  left[:, 0] = 1  # the first one's law is q itself
  return np.where(exists, left / np.where(exists, q_at, 1), 0)


def _inside_with(q, k):
  total = np.minimum(q.cumsum(axis=1), 1)
  return np.concatenate([np.zeros((len(q), 1)), total], axis=1) ** k


def _inside_without(q, k):
  """A race, in which x arrives at rate q(x): k of them before any other one."""
  if k == 1:
    return _inside_with(q, k)
  arrived = np.zeros((len(q), k, len(_TIMES)))  # P(i of them have), by time
  arrived[:, 0] = 1
  edges = np.append(0, np.sqrt(_TIMES[1:] * _TIMES[:-1]))[:, None]
  left = q[:, ::-1].cumsum(axis=1)[:, ::-1]  # exactly 0 where nothing is left
  left = np.append(left, np.zeros((len(q), 1)), axis=1)[:, 1:]
  found = [np.zeros(len(q))]
  for rate, others in zip(q.T, left.T, strict=True):
    has = -np.expm1(-rate[:, None] * _TIMES)[:, None]
    before = np.concatenate([np.zeros_like(has), arrived[:, :-1]], axis=1)
    arrived = arrived * (1 - has) + before * has
    alone = np.exp(-others * edges)  # no other one has, by time
    ended = alone - np.append(alone[1:], np.zeros((1, len(q))), axis=0)
    inside = (ended.T * (1 - arrived.sum(axis=1))).sum(axis=1)
    found.append(np.where(others > 0, inside, 1))
  return np.stack(found, axis=1)


def _drafted_with(q, q_at, k):
  del q
  return 1 - (1 - q_at) ** k


def _drafted_without(q, q_at, k):
  """About: to have arrived when k are expected to have (Rosen, 1997)."""
  if k == 1:
    return q_at
  low, high = np.zeros(len(q)), np.full(len(q), _TIMES[-1])
  for _ in range(40):
    middle = (low + high) / 2
    few = -np.expm1(-q * middle[:, None]).sum(axis=1) < k
    low, high = np.where(few, middle, low), np.where(few, high, middle)
  return -np.expm1(-q_at * high[:, None])


SIBLINGS = {
  "without_replacement": Siblings(
    inverse=_inverse_without,
    elders=True,
    inside=_inside_without,
    drafted=_drafted_without,
  ),
  "with_replacement": Siblings(
    inverse=_inverse_with,
    elders=False,
    inside=_inside_with,
    drafted=_drafted_with,
  ),
}
