"""The audit's statistics and its verdict."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from scipy import stats

from tv_jax.certify import words

# Fewer expected hits than this, and the chi-square law does not hold.
FEWEST = 5
# The chance that a sound engine fails, over all cases.
LEVEL = 0.01
# Fewer cycles, and what a cycle leaves behind is hardly tested.
FEWEST_CYCLES = 3.0
# Laws are in float32; a wrong cache row moves them by far more.
LARGEST_DRIFT = 2e-3

COLUMNS = ("draft", "tree", "verifier", "proposal", "temperature", "top-p")


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


def uniform(rows: list[Row]) -> float:
  """Tests the p-values against the uniform law on [0, 1]."""
  return float(stats.kstest([row.p_value for row in rows], "uniform").pvalue)


def failures(rows: list[Row], drifts: dict[tuple, float]) -> list[str]:
  """Returns what is wrong, a line each; nothing if all is well.

  Args:
    rows: All cases; a p-value counts as often as there are rows (Bonferroni).
    drifts: By draft kind and tree, how far laws are from those of the text.
  """
  lines = []
  for row in rows:
    name = ", ".join(row.names)
    if row.p_value * len(rows) < LEVEL:
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
      name = ", ".join(names)
      lines.append(
        f"LAWS ARE NOT THOSE OF THE TEXT: {name}: off by {drift:.1e}"
      )
  if len(rows) >= 20 and (p := uniform(rows)) < LEVEL:
    lines.append(f"the p-values are not uniform: p = {p:.1e}")
  return lines


def spell_out(rows: list[Row], drifts: dict[tuple, float], decoded: int) -> str:
  """Returns a table of all cases, and what stands below it."""
  table = [(*COLUMNS, "cycles", "p-value")]
  table += [
    (*row.names, f"{row.cycles:.2f}", f"{row.p_value:.3g}") for row in rows
  ]
  least = min(row.p_value for row in rows)
  off = ", ".join(f"{' '.join(x)} {drift:.1e}" for x, drift in drifts.items())
  return (
    f"{words.table(table)}\n{len(rows)} cases of {decoded:,} rows: the least"
    f" p-value is {least:.2g}, or {min(1, least * len(rows)):.2g} for so many;"
    f" p-values against the uniform law: {uniform(rows):.2g}.\nLargest"
    " difference of any law of a cycle, the target's or the draft's, from the"
    f" same law computed anew from the whole text: {off}."
  )
