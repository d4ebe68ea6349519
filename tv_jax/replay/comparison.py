"""The table of a replay and the lines around it."""

import numpy as np
import pandas as pd

from tv_jax.engine.results import Estimate
from tv_jax.replay.cycles import Cycles


def table(
  cycles: Cycles, lengths: dict[str, np.ndarray], by: dict[str, str]
) -> pd.DataFrame:
  """Makes a table with a row for each rule.

  Args:
    cycles: The recorded cycles.
    lengths: [C] by rule. All are compared with the rule that ran, or the first.
    by: How each rule's lengths were computed.
  """
  base = cycles.verifier if cycles.verifier in lengths else next(iter(lengths))
  header = ["verifier", "expected length", f"minus {base}", "by"]
  rows = []
  for name, length in lengths.items():
    gain = "\u2013"
    if name != base:
      difference = length - lengths[base]
      gain = f"{Estimate.clustered(difference, cycles.item):+.4f}"
    mean = f"{Estimate.clustered(length, cycles.item):.4f}"
    rows.append([name, mean, gain, by[name]])
  return pd.DataFrame(rows, columns=header)


def describe(path, cycles: Cycles) -> str:
  """Describes the file in a few lines."""
  lines = [
    f"{path}: {len(cycles)} cycles of {len(np.unique(cycles.item))}"
    f" items, {cycles.proposal.name} on {cycles.tree!r}"
  ]
  if cycles.verifier:
    temperature = cycles.temperature
    at = "" if temperature is None else f" at temperature {temperature:g}"
    lines.append(f"run by {cycles.verifier}{at}")
  if not cycles.meta.get("complete", True):
    lines.append("the run was interrupted: the file holds its first cycles")
  return "\n".join(lines)


def check_line(cycles: Cycles, lengths: dict[str, np.ndarray]) -> str | None:
  """Returns the line with realised minus expected length of the rule that ran.

  A cycle's difference has mean 0 whatever came before, so the error is not
  clustered. A difference beyond its error is a bug.
  """
  if cycles.accepted is None or cycles.verifier not in lengths:
    return None
  difference = Estimate.of(cycles.accepted - lengths[cycles.verifier])
  return f"check: realised - expected = {difference:+.4f}"
