"""What was found, as a record, a table and JSON."""

from __future__ import annotations

import dataclasses

import numpy as np
import rich.table

from tv_jax.engine.estimates import Estimate
from tv_jax.tree import Calibrated, Tree

TUNED, FAST, SEQUOIA, NAMED = "tuned", "fast", "sequoia", "named"


@dataclasses.dataclass(frozen=True, kw_only=True)
class Row:
  """One tree.

  Attributes:
    name: Its name in the table.
    kind: `TUNED`, the best of a number of nodes; `FAST`, expected to be the
      fastest; `SEQUOIA`, the best by Sequoia's model; or `NAMED`, one to
      compare with.
    tree: The tree.
    predicted: Acceptance length by the prompts that it was tuned on; None if
      the tree is not part of the wide one.
    measured: The same, by the other prompts.
    gain: By how much it is longer than the asked tree, on the same cycles.
    decoded: Acceptance length where the tree itself ran, on some of the others.
    seconds: What a cycle takes; None if it was not timed.
  """

  name: str
  kind: str
  tree: Tree
  predicted: Estimate | None = None
  measured: Estimate | None = None
  gain: Estimate | None = None
  decoded: Estimate | None = None
  seconds: float | None = None

  @property
  def speed(self) -> float:
    """Tokens a second, without the reading of prompts; NaN if not timed.

    By the length on prompts that it was not tuned on, else by that decoded.
    """
    length = self.measured or self.decoded
    return length.mean / self.seconds if length and self.seconds else np.nan


@dataclasses.dataclass(frozen=True, kw_only=True)
class Tuned:
  """What `tune` returns; print it for a table.

  Attributes:
    tree: The best tree of the asked number of nodes.
    name: The name of its row.
    fastest: The tree of the most tokens a second here; None if none was timed.
    rows: All trees.
    plain: Seconds of a token of plain decoding; None if it was not timed.
    check: Realised less expected length in the wide tree's run: 0 within its
      error; None if another rule ran.
    policy: What children are worth to an adaptive tree, by the prompts that
      trees were tuned on.
    how: The rule, the proposal, the temperature, and what else files say.
    notes: What to know about these numbers.
  """

  tree: Tree
  name: str
  fastest: Tree | None
  rows: tuple[Row, ...]
  plain: float | None
  check: Estimate | None
  policy: Calibrated
  how: dict
  notes: tuple[str, ...]

  @property
  def off(self) -> Estimate:
    """Returns the asked tree's measured length less the predicted one.

    The two are from separate prompts, so that their errors add up.
    """
    (row,) = [row for row in self.rows if row.name == self.name]
    assert row.measured
    assert row.predicted
    return Estimate(
      mean=row.measured.mean - row.predicted.mean,
      error=float(np.hypot(row.measured.error, row.predicted.error)),
      n=row.measured.n + row.predicted.n,
    )

  def __repr__(self) -> str:
    """Returns the table, and what to know about it."""
    console = rich.console.Console(width=120)
    with console.capture() as caught:
      console.print(self.table())
    return "\n".join([caught.get().rstrip(), *self.lines()])

  def table(self) -> rich.table.Table:
    """Returns a table with a row for each tree."""
    columns = ["tree", "nodes", "by depth", "predicted", "on other prompts"]
    columns.append(f"minus {self.name}")
    plain = self.plain
    if plain:
      columns += ["decoded", "ms a cycle", "tokens/s", "over plain"]
    table = rich.table.Table(*columns)
    if plain:
      table.add_row("plain", *[""] * 6, *_times(plain, 1 / plain, plain))
    for row in self.rows:
      cells = [
        row.name,
        str(len(row.tree) - 1),
        " ".join(str(len(level)) for level in row.tree.levels[1:]),
        _told(row.predicted),
        _told(row.measured),
        "-" if row.name == self.name else _told(row.gain, "+.3f"),
      ]
      if plain:
        cells += [_told(row.decoded), *_times(row.seconds, row.speed, plain)]
      table.add_row(*cells)
    return table

  def lines(self) -> list[str]:
    """Returns what to know about the table."""
    lines = [f"other prompts - predicted, of {self.name} = {self.off:+.3f}"]
    if self.check:
      lines.append(f"check: realised - expected = {self.check:+.3f}")
    return [*lines, *self.notes]

  def of(self, row: Row) -> dict:
    """Returns what a file says about a tree, which `tree=` takes."""
    found = {
      "parents": [*row.tree.parents],
      "nodes": len(row.tree) - 1,
      "depth": row.tree.max_depth,
      "name": row.name,
      **self.how,
      "predicted": _numbers(row.predicted),
      "measured": _numbers(row.measured),
    }
    if self.plain and row.seconds:
      found["decoded"] = _numbers(row.decoded)
      found["milliseconds_a_cycle"] = 1e3 * row.seconds
      found["tokens_per_second"] = row.speed
      found["plain_tokens_per_second"] = 1 / self.plain
    return found


def _told(estimate: Estimate | None, spec: str = ".3f") -> str:
  return "-" if estimate is None else f"{estimate:{spec}}"


def _times(seconds: float | None, speed: float, plain: float) -> list[str]:
  """Cells: milliseconds a cycle, tokens a second, and over plain decoding."""
  if seconds is None:
    return ["-"] * 3
  return [f"{1e3 * seconds:.2f}", f"{speed:.1f}", f"{speed * plain:.2f}"]


def _numbers(estimate: Estimate | None) -> dict | None:
  """As JSON: what is not known is null."""
  if estimate is None:
    return None
  error = None if np.isnan(estimate.error) else estimate.error
  return {"length": estimate.mean, "error": error, "items": estimate.n}
