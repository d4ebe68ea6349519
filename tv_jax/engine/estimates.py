"""Means with their standard errors, and what must be said beside them."""

from __future__ import annotations

import dataclasses

import numpy as np

# What it means that a cycle is counted among the faults.
FAULT = (
  "the logits of the target or of the draft are broken there, or how sure the"
  " draft is, or the rule, or the policy that shapes the tree"
)

# What it means that no cycle of a run drafted anything.
IDLE = "the policy that shapes the tree wanted no child of any root"


@dataclasses.dataclass(frozen=True, kw_only=True, eq=False)
class Estimate:
  """A mean, its standard error (ddof 1), and how many values it is over.

  Attributes:
    mean: The mean; NaN of nothing.
    error: Its standard error; NaN if it is not known, as of a single value.
    n: How many values, or clusters of them.
  """

  mean: float
  error: float
  n: int

  @classmethod
  def of(cls, values) -> Estimate:
    """Returns the estimate from independent values."""
    return cls.clustered(values, np.arange(len(values)))

  @classmethod
  def clustered(cls, values, cluster) -> Estimate:
    """Returns the estimate from values of which those of a cluster go together.

    The error is that of a ratio of the clusters' sums; n counts clusters, which
    are named value by value, as by the item's number.
    """
    values = np.asarray(values, np.float64)
    if not len(values):
      return cls(mean=float("nan"), error=float("nan"), n=0)
    mean = values.mean()
    _, which = np.unique(cluster, return_inverse=True)
    sums = np.bincount(which, weights=values - mean)
    n = len(sums)
    error = float("nan")
    if n > 1:
      error = (n / (n - 1) * np.sum(sums**2)) ** 0.5 / len(values)
    return cls(mean=float(mean), error=float(error), n=n)

  def __format__(self, spec: str) -> str:
    """For example 3.214 ± 0.021; `spec` is that of the mean, as in "+.4f"."""
    spec = spec or ".3f"
    plain = spec.lstrip("+")
    error = "?" if np.isnan(self.error) else f"{self.error:{plain}}"
    return f"{self.mean:{spec}} ± {error}"
