"""Means over cycles, with errors that know that items are correlated."""

from __future__ import annotations

import dataclasses

import numpy as np


@dataclasses.dataclass(frozen=True, kw_only=True)
class Estimate:
  """A mean over cycles; its standard error is clustered by item.

  The cycles of one item share a context, and are no independent draws: the
  error is that of a ratio of item sums. Of a single item it is not known.
  """

  mean: float
  error: float  # NaN if not known

  @classmethod
  def of(cls, values: np.ndarray, item: np.ndarray) -> Estimate:
    """The estimate from values of cycles and the number of each one's item."""
    values = np.asarray(values, np.float64)
    mean = values.mean()
    _, which = np.unique(item, return_inverse=True)
    sums = np.bincount(which, weights=values - mean)
    G = len(sums)
    error = float("nan")
    if G > 1:
      error = (G / (G - 1) * np.sum(sums**2)) ** 0.5 / len(values)
    return cls(mean=float(mean), error=float(error))

  def __format__(self, spec: str) -> str:
    """For example 3.2140 ± 0.0210; with the sign, if `spec` is "+"."""
    error = "?" if np.isnan(self.error) else f"{self.error:.4f}"
    return f"{self.mean:{spec}.4f} ± {error}"
