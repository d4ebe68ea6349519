"""The audit's statistics and its verdict."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from scipy import stats

# Cells with fewer expected counts are pooled, because the chi-square
# approximation does not hold for them.
FEWEST = 5
# The probability that a correct engine fails, over all cases.
LEVEL = 0.01
# With fewer cycles in a row, the state kept between cycles is hardly tested.
FEWEST_CYCLES = 3.0
# Distributions are float32; a wrong cache row changes them by far more.
LARGEST_DRIFT = 2e-3


class CaseResult(NamedTuple):
  """The result of a case."""

  name: str  # draft, tree, verifier, proposal, temperature, top-p
  p_value: float
  cycles: float  # mean number of cycles of a row
  faults: int  # cycles with a NaN
  drift: float  # largest error of a probability

  def __repr__(self) -> str:
    """Returns the line that the command prints."""
    return (
      f"{self.name}: p {self.p_value:.3g}, {self.cycles:.2f} cycles a row, laws"
      f" off by {self.drift:.1e}"
    )


def chi_square(counts: np.ndarray, law: np.ndarray) -> float:
  """Returns the p-value of a chi-square test of counts.

  The rarest cells are pooled until each expects at least FEWEST counts.

  Args:
    counts: [samples, cells] the counts of each sample.
    law: [samples, cells] the probabilities to test.

  Returns:
    The p-value of all samples together; 0 if a cell of probability 0 has a
    count.
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


def uniform(rows: list[CaseResult]) -> float:
  """Returns the p-value of a test that the p-values are uniform."""
  return float(stats.kstest([row.p_value for row in rows], "uniform").pvalue)


def failures(row: CaseResult, cases: int) -> list[str]:
  """Returns a line for each fault; `cases` is for a Bonferroni correction."""
  wrong = {
    "NOT THE TARGET'S LAW": row.p_value * cases < LEVEL,
    "LAWS ARE NOT THOSE OF THE TEXT": not row.drift < LARGEST_DRIFT,
    f"faults in {row.faults} cycles": row.faults,
    f"under {FEWEST_CYCLES:g} cycles a row, give a shallower tree": (
      row.cycles < FEWEST_CYCLES
    ),
  }
  return [f"{fault}: {row}" for fault, is_so in wrong.items() if is_so]
