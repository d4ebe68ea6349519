"""The audit's verdict, and how it prints."""

from __future__ import annotations

from typing import NamedTuple

from tv_jax.certify.engine import statistics

# The chance that a sound engine fails, over all cases.
LEVEL = 0.01
# Fewer cycles, and what a cycle leaves behind is hardly tested.
FEWEST_CYCLES = 3.0
# Laws are in float32; a wrong cache row moves them by far more.
LARGEST_DRIFT = 2e-3

COLUMNS = (
  "draft",
  "tree",
  "verifier",
  "proposal",
  "temperature",
  "top-p",
  "cycles",
  "p-value",
  "Holm",
)


class Row(NamedTuple):
  """One case."""

  names: tuple[str, ...]  # the first six columns
  cycles: float
  p_value: float
  faults: int


class Drift(NamedTuple):
  """How far the laws of a draft kind on a tree are from those of the text."""

  names: tuple[str, ...]  # the draft kind, the tree
  largest: float


def failures(rows: list[Row], drifts: list[Drift]) -> list[str]:
  """Returns what is wrong, a line each; nothing if all is well."""
  lines = []
  corrected = statistics.holm([row.p_value for row in rows])
  for row, p in zip(rows, corrected, strict=True):
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
  for drift in drifts:
    if not drift.largest < LARGEST_DRIFT:
      lines.append(
        f"LAWS ARE NOT THOSE OF THE TEXT: {', '.join(drift.names)}: off by"
        f" {drift.largest:.1e}"
      )
  p = statistics.uniform([row.p_value for row in rows])
  if len(rows) >= 20 and p < LEVEL:
    lines.append(f"the p-values are not uniform: p = {p:.1e}")
  return lines


def cells(rows: list[Row]) -> list[list[str]]:
  """Returns the table's rows as text."""
  corrected = statistics.holm([row.p_value for row in rows])
  return [
    [*row.names, f"{row.cycles:.2f}", f"{row.p_value:.3g}", f"{p:.3g}"]
    for row, p in zip(rows, corrected, strict=True)
  ]


def summary(rows: list[Row], drifts: list[Drift], decoded: int) -> list[str]:
  """Returns a few lines below the table."""
  p_values = [row.p_value for row in rows]
  return [
    f"{len(rows)} cases of {decoded:,} rows: least p-value"
    f" {min(p_values):.2g}, {statistics.holm(p_values).min():.2g} after"
    f" Holm's correction; p-values against the uniform law:"
    f" {statistics.uniform(p_values):.2g}.",
    "Largest difference of any law of a cycle, the target's or the draft's,"
    " from the same law computed anew from the whole text: "
    + ", ".join(f"{' '.join(d.names)} {d.largest:.1e}" for d in drifts)
    + ".",
  ]


def markdown(rows, drifts, decoded: int, heading: list[str]) -> str:
  """Returns the whole result as a page."""
  lines = [*heading, "", *summary(rows, drifts, decoded), ""]
  lines += [f"- {line}" for line in failures(rows, drifts)]
  lines += ["", "| " + " | ".join(COLUMNS) + " |", "|---" * len(COLUMNS) + "|"]
  lines += ["| " + " | ".join(row) + " |" for row in cells(rows)]
  return "\n".join(lines) + "\n"
