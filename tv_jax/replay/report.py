"""The table of a replay."""

from collections.abc import Iterable
from typing import NamedTuple

import numpy as np
import rich.table

from tv_jax.metrics import Estimate
from tv_jax.replay.data import Cycles


class Row(NamedTuple):
  """One verifier on the cycles of a file."""

  name: str
  length: Estimate
  gain: Estimate | None  # over the base, on the same cycles; None: it is this
  by: str  # how the lengths were found
  shift: float | None  # as a share of what the run itself computed


def base_of(cycles: Cycles, names: Iterable[str]) -> str:
  """What all are compared with: the run's own rule, or else the first."""
  names = [*names]
  return cycles.verifier if cycles.verifier in names else names[0]


def rows(
  cycles: Cycles, lengths: dict[str, np.ndarray], by: dict[str, str]
) -> list[Row]:
  """The rows, from lengths [C] by verifier and how each was found."""
  base = base_of(cycles, lengths)
  made = []
  for name, own in lengths.items():
    shift = None
    if name in cycles.expected:
      recorded = cycles.expected[name].mean(dtype=np.float64)
      shift = float(own.mean(dtype=np.float64) / recorded - 1)
    length, gain = Estimate.clustered(own, cycles.item), None
    if name != base:
      gain = Estimate.clustered(own - lengths[base], cycles.item)
    made.append(Row(name, length, gain, by[name], shift))
  return made


def table(cycles: Cycles, made: list[Row]) -> rich.table.Table:
  """The rows as a table."""
  base = base_of(cycles, [row.name for row in made])
  result = rich.table.Table(
    "verifier", "expected length", f"minus {base}", "by", "shift by merging"
  )
  for row in made:
    result.add_row(
      row.name,
      f"{row.length:.4f}",
      "-" if row.gain is None else f"{row.gain:+.4f}",
      row.by,
      "-" if row.shift is None else f"{row.shift:+.4%}",
    )
  return result


def describe(path, cycles: Cycles) -> str:
  """What the file holds, in a line or two."""
  lines = [
    f"{path}: {len(cycles)} cycles of {len(np.unique(cycles.item))} items,"
    f" {cycles.proposal.name} on {cycles.tree!r}"
  ]
  if cycles.verifier is not None:
    line = f"run by {cycles.verifier}"
    if cycles.temperature is not None:
      line += f" at temperature {cycles.temperature:g}"
    lines.append(line)
  if not cycles.meta.get("complete", True):
    lines.append("the run was interrupted: the file holds what it had done")
  return "\n".join(lines)


def check(cycles: Cycles, lengths: dict[str, np.ndarray]) -> str | None:
  """Realised minus own expected length: 0 within its error, or a bug."""
  if cycles.accepted is None or cycles.verifier not in lengths:
    return None
  over = cycles.accepted - lengths[cycles.verifier]
  check = Estimate.clustered(over, cycles.item)
  return f"check: realised - expected = {check:+.4f}"
