"""The table of a replay."""

import dataclasses
from collections.abc import Iterable
from typing import NamedTuple

import numpy as np
import rich.table

from tv_jax.edge.reading import shown
from tv_jax.engine.estimates import Estimate
from tv_jax.replay.data import Cycles


class Row(NamedTuple):
  """One verifier on the cycles of a file."""

  name: str
  length: Estimate
  gain: Estimate | None  # over the base, on the same cycles; None: it is this
  by: str  # how the lengths were found
  shift: float | None  # as a share of what the run itself computed
  share: Estimate | None = None  # of what is possible at most, in percent


BOUND = """\
at most: no lossless rule's mean is above this one's, on drafts made as these
were; what is best may be less. A share is the least that a rule reaches."""


def base_of(cycles: Cycles, names: Iterable[str]) -> str:
  """Returns what all are compared with: the run's own rule, or the first."""
  names = [*names]
  return cycles.verifier if cycles.verifier in names else names[0]


def rows(
  cycles: Cycles,
  lengths: dict[str, np.ndarray],
  by: dict[str, str],
  bounds: np.ndarray | None = None,
) -> list[Row]:
  """Makes the rows from lengths [C] by verifier and how each was found.

  With bounds [C], each rule's share of their mean.
  """
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
    share = None if bounds is None else _share(own, bounds, cycles.item)
    made.append(Row(name, length, gain, by[name], shift, share))
  return made


def _share(own, bounds, item) -> Estimate:
  """In percent; the error is that of a ratio in which both sides vary."""
  own, bounds = own.astype(float), bounds.astype(float)
  ratio = float(own.sum() / bounds.sum())
  scale = 100 / bounds.mean()
  around = Estimate.clustered(scale * (own - ratio * bounds), item)
  return dataclasses.replace(around, mean=100 * ratio)


def table(
  cycles: Cycles, made: list[Row], bounds: np.ndarray | None = None
) -> rich.table.Table:
  """Makes the table of the rows; below them the bound, if there is one."""
  base = base_of(cycles, [row.name for row in made])
  asked = bounds is not None
  result = rich.table.Table(
    *("verifier", "expected length", f"minus {base}"),
    *(["% of at most"] if asked else []),
    *("by", "shift by merging"),
  )
  for row in made:
    result.add_row(
      row.name,
      f"{row.length:.4f}",
      "-" if row.gain is None else f"{row.gain:+.4f}",
      *([f"{row.share:.2f}"] if asked else []),
      row.by,
      "-" if row.shift is None else f"{round(row.shift, 6) + 0.0:+.4%}",
    )
  if asked:
    most = Estimate.clustered(bounds, cycles.item)
    result.add_row("at most", f"{most:.4f}", "-", "100", "prices", "-")
  return result


def describe(path, cycles: Cycles) -> str:
  """Says what the file holds, in a line or two."""
  lines = [
    f"{shown(path)}: {len(cycles)} cycles of {len(np.unique(cycles.item))}"
    f" items, {cycles.proposal.name} on {cycles.tree!r}"
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
  """Says realised minus own expected length: 0 within its error, or a bug.

  A cycle's is 0 in the mean whatever came before, so nothing is clustered.
  """
  if cycles.accepted is None or cycles.verifier not in lengths:
    return None
  check = Estimate.of(cycles.accepted - lengths[cycles.verifier])
  return f"check: realised - expected = {check:+.4f}"
