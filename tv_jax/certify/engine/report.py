"""The audit's statistics and its verdict."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from scipy import stats

# Fewer expected hits than this, and the chi-square law does not hold.
FEWEST = 5
# The chance that a sound engine fails, over all cases.
LEVEL = 0.01
# Fewer cycles, and what a cycle leaves behind is hardly tested.
FEWEST_CYCLES = 3.0
# Laws are in float32; a wrong cache row moves them by far more.
LARGEST_DRIFT = 2e-3


class Row(NamedTuple):
  """One case."""

  name: str  # draft, tree, verifier, proposal, temperature, top-p
  p_value: float
  cycles: float  # of a row, in the mean
  faults: int  # cycles in which a NaN was met
  drift: float  # how far the laws of a cycle are from those of its text

  def __repr__(self) -> str:
    """Returns a line."""
    return (
      f"{self.name}: p {self.p_value:.3g}, {self.cycles:.2f} cycles a row, laws"
      f" off by {self.drift:.1e}"
    )


def chi_square(counts: np.ndarray, law: np.ndarray) -> float:
  """Returns the chance of counts as far from the law as these, or farther.

  The rarest cells are put together until none expects fewer than FEWEST hits.

  Args:
    counts: [samples, cells], of a sample each.
    law: [samples, cells] what each was drawn from, if all is right.

  Returns:
    The p-value of all samples together; 0 if a cell of probability 0 was hit.
  """
  if (counts[law == 0] > 0).any():
    return 0.0
  statistic, freedom = 0.0, 0
  for seen, chances in zip(counts, law, strict=True):
    due = chances / chances.sum() * seen.sum()
    order = np.argsort(due, kind="stable")
    due, seen = due[order], seen[order]
    rare = np.searchsorted(due, FEWEST)
    enough = np.searchsorted(due.cumsum(), FEWEST) + 1
    starts = [0, *range(max(rare, enough), len(due))]
    due, seen = (np.add.reduceat(x, starts) for x in (due, seen))
    statistic += stats.chisquare(seen, due).statistic
    freedom += len(due) - 1
  return float(stats.chi2.sf(statistic, freedom)) if freedom else 1.0


def uniform(rows: list[Row]) -> float:
  """Tests the p-values against the uniform law on [0, 1]."""
  return float(stats.kstest([row.p_value for row in rows], "uniform").pvalue)


def failures(row: Row, cases: int) -> list[str]:
  """Returns what is wrong with one of so many cases (Bonferroni)."""
  wrong = {
    "NOT THE TARGET'S LAW": row.p_value * cases < LEVEL,
    "LAWS ARE NOT THOSE OF THE TEXT": not row.drift < LARGEST_DRIFT,
    f"faults in {row.faults} cycles": row.faults,
    f"under {FEWEST_CYCLES:g} cycles a row, give a shallower tree": (
      row.cycles < FEWEST_CYCLES
    ),
  }
  return [f"{fault}: {row}" for fault, is_so in wrong.items() if is_so]
