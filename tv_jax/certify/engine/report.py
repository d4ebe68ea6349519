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

COLUMNS = (
  *("draft", "tree", "verifier", "proposal", "temperature", "top-p"),
  *("cycles", "p-value", "Holm"),
)


class Row(NamedTuple):
  """One case."""

  names: tuple[str, ...]  # the first six columns
  cycles: float
  p_value: float
  faults: int


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


def holm(p_values) -> np.ndarray:
  """Corrects as Holm did: each below 0.01 is a rejection at 1% over all."""
  p_values = np.asarray(p_values, float)
  order = np.argsort(p_values)
  steps = p_values[order] * np.arange(len(p_values), 0, -1)
  corrected = np.empty(len(p_values))
  corrected[order] = np.minimum(np.maximum.accumulate(steps), 1)
  return corrected


def uniform(p_values) -> float:
  """Tests p-values against the uniform law on [0, 1]."""
  return float(stats.kstest(p_values, "uniform").pvalue)


def failures(rows: list[Row], drifts: dict[tuple, float]) -> list[str]:
  """Returns what is wrong, a line each; nothing if all is well.

  Args:
    rows: All cases.
    drifts: By draft kind and tree, how far laws are from those of the text.
  """
  lines, p_values = [], [row.p_value for row in rows]
  for row, p in zip(rows, holm(p_values), strict=True):
    name = ", ".join(row.names)
    if p < LEVEL:
      lines.append(f"NOT THE TARGET'S LAW: {name}: p = {row.p_value:.1e}")
    if row.faults:
      lines.append(f"faults in {row.faults} cycles: {name}")
    if row.cycles < FEWEST_CYCLES:
      lines.append(
        f"only {row.cycles:.2f} cycles a row, not {FEWEST_CYCLES:g}: {name}:"
        " give a shallower tree"
      )
  for names, drift in drifts.items():
    if not drift < LARGEST_DRIFT:
      told = f"{', '.join(names)}: off by {drift:.1e}"
      lines.append(f"LAWS ARE NOT THOSE OF THE TEXT: {told}")
  if len(rows) >= 20 and (p := uniform(p_values)) < LEVEL:
    lines.append(f"the p-values are not uniform: p = {p:.1e}")
  return lines


def cells(rows: list[Row]) -> list[list[str]]:
  """Returns the table's rows as text."""
  return [
    [*row.names, f"{row.cycles:.2f}", f"{row.p_value:.3g}", f"{p:.3g}"]
    for row, p in zip(rows, holm([row.p_value for row in rows]), strict=True)
  ]


def summary(rows: list[Row], drifts: dict[tuple, float], decoded: int) -> str:
  """Returns what stands below the table."""
  p_values = [row.p_value for row in rows]
  off = ", ".join(f"{' '.join(x)} {drift:.1e}" for x, drift in drifts.items())
  return (
    f"{len(rows)} cases of {decoded:,} rows: least p-value"
    f" {min(p_values):.2g}, {holm(p_values).min():.2g} after Holm's correction;"
    f" p-values against the uniform law: {uniform(p_values):.2g}.\nLargest"
    " difference of any law of a cycle, the target's or the draft's, from the"
    f" same law computed anew from the whole text: {off}."
  )
