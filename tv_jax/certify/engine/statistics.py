"""Whether counts were drawn from a law, for many laws at once."""

from __future__ import annotations

import jax
import numpy as np
from jax.scipy import special

# Fewer expected hits than this, and the chi-square law does not hold.
FEWEST = 5


def chi_square(counts: np.ndarray, law: np.ndarray) -> float:
  """Returns the chance of counts as far from the law as these, or farther.

  Args:
    counts: [samples, cells], of a sample each.
    law: [samples, cells] what each was drawn from, if all is right.

  Returns:
    The p-value of all samples together; 0 if a cell of probability 0 was hit.
  """
  if (counts[law == 0] > 0).any():
    return 0.0
  statistic, freedom = 0.0, 0
  for own, chances in zip(counts, law, strict=True):
    expected = chances / chances.sum() * own.sum()
    expected, own = _pool(expected, own)
    statistic += float(((own - expected) ** 2 / expected).sum())
    freedom += len(expected) - 1
  if freedom == 0:
    return 1.0
  with jax.enable_x64(True):
    return float(special.gammaincc(freedom / 2, statistic / 2))


def _pool(expected, counts):
  """Puts the rarest cells together until none expects fewer than FEWEST."""
  order = np.argsort(expected, kind="stable")
  expected, counts = expected[order], counts[order]
  together = np.searchsorted(expected, FEWEST)
  total = np.cumsum(expected)
  while 0 < together < len(expected) and total[together - 1] < FEWEST:
    together += 1
  if together == 0:
    return expected, counts
  return (
    np.append(expected[together:], total[together - 1]),
    np.append(counts[together:], counts[:together].sum()),
  )


def holm(p_values) -> np.ndarray:
  """Corrects as Holm did: each below 0.01 is a rejection at 1% over all."""
  p_values = np.asarray(p_values, float)
  order = np.argsort(p_values)
  n = len(p_values)
  steps = p_values[order] * (n - np.arange(n))
  corrected = np.empty(n)
  corrected[order] = np.minimum(np.maximum.accumulate(steps), 1)
  return corrected


def uniform(p_values) -> float:
  """Tests p-values against the uniform law on [0, 1], as Kolmogorov did."""
  p_values = np.sort(np.asarray(p_values, float))
  n = len(p_values)
  place = np.arange(n)
  distance = max(
    float((p_values - place / n).max()),
    float(((place + 1) / n - p_values).max()),
  )
  # Stephens's correction for a finite n.
  x = (n**0.5 + 0.12 + 0.11 / n**0.5) * distance
  k = np.arange(1, 101)
  tail = 2 * np.sum((-1.0) ** (k - 1) * np.exp(-2 * k**2 * x**2))
  return float(np.clip(tail, 0, 1))
