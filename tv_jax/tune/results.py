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
    name: Of it, as in the table.
    kind: `TUNED`, the best of a number of nodes; `FAST`, thought to be the
      fastest; `SEQUOIA`, the best by Sequoia's model; or `NAMED`.
    tree: The tree.
    predicted: Tokens a cycle by the prompts that it was tuned on; None of a
      tree that is no part of the wide one.
    measured: The same, by the other prompts.
    gain: The same, less what the asked tree has in the same cycles.
    decoded: Tokens gained a cycle where it was run, on some of the others.
    seconds: Of a cycle; None where it was not timed.
  """

  name: str
  kind: str
  tree: Tree
  predicted: Estimate | None
  measured: Estimate | None
  gain: Estimate | None
  decoded: Estimate | None = None
  seconds: float | None = None

  @property
  def length(self) -> Estimate | None:
    """On prompts that it was not tuned on: the better estimate."""
    return self.measured or self.decoded

  @property
  def speed(self) -> float | None:
    """Tokens a second, the reading of prompts aside."""
    return self.seconds and self.length.mean / self.seconds


@dataclasses.dataclass(frozen=True, kw_only=True)
class Tuned:
  """What `tune` returns; print it for a table.

  Attributes:
    tree: The best of the number of nodes that was asked for.
    name: Its row's.
    fastest: The tree of the most tokens a second here; None if none was timed.
    rows: All trees.
    plain: Seconds of a token of plain decoding; None if it was not timed.
    off: By how much the asked tree's length on other prompts is off what was
      predicted; the errors of both halves.
    check: Realised less expected length, of the wide tree's run: 0 within its
      error; None if it was not this rule that ran.
    policy: What children are worth to an adaptive tree, by the prompts that
      trees were tuned on.
    how: The rule, the proposal, the temperature, and what else files say.
    notes: What to know of these numbers.
  """

  tree: Tree
  name: str
  fastest: Tree | None
  rows: tuple[Row, ...]
  plain: float | None
  off: Estimate
  check: Estimate | None
  policy: Calibrated
  how: dict
  notes: tuple[str, ...]

  def __repr__(self) -> str:
    """The table, and what to know of it."""
    console = rich.console.Console(width=120)
    with console.capture() as caught:
      console.print(self.table())
    return "\n".join([caught.get().rstrip(), *self.lines()])

  def table(self) -> rich.table.Table:
    """A row for each tree."""
    timed = self.plain is not None
    columns = ("tree", "nodes", "by depth", "predicted", "on other prompts")
    columns += (f"minus {self.name}",)
    if timed:
      columns += ("decoded", "ms a cycle", "tokens/s", "over plain")
    table = rich.table.Table(*columns)
    if timed:
      blank = [""] * 6
      table.add_row("plain", *blank, *self._times(self.plain, 1 / self.plain))
    for row in self.rows:
      cells = [
        row.name,
        str(len(row.tree) - 1),
        " ".join(str(len(level)) for level in row.tree.levels[1:]),
        _told(row.predicted),
        _told(row.measured),
        "-" if row.name == self.name else _told(row.gain, "+.3f"),
      ]
      if timed:
        cells += [_told(row.decoded), *self._times(row.seconds, row.speed)]
      table.add_row(*cells)
    return table

  def _times(self, seconds, speed):
    if seconds is None:
      return ["-"] * 3
    over = speed * self.plain
    return [f"{1e3 * seconds:.2f}", f"{speed:.1f}", f"{over:.2f}"]

  def lines(self) -> list[str]:
    """What to know of the table."""
    lines = [
      f"other prompts - predicted, of {self.name} = {self.off:+.3f}",
    ]
    if self.check:
      lines.append(f"check: realised - expected = {self.check:+.3f}")
    return [*lines, *self.notes]

  def of(self, row: Row) -> dict:
    """What a file says of a tree, which `tree=` takes."""
    found = {
      "parents": [*row.tree.parents],
      "nodes": len(row.tree) - 1,
      "depth": row.tree.max_depth,
      "name": row.name,
      **self.how,
      "predicted": _numbers(row.predicted),
      "measured": _numbers(row.measured),
    }
    if row.seconds is not None:
      found["decoded"] = _numbers(row.decoded)
      found["milliseconds_a_cycle"] = 1e3 * row.seconds
      found["tokens_per_second"] = row.speed
      found["plain_tokens_per_second"] = 1 / self.plain
    return found


def difference(measured: Estimate, predicted: Estimate) -> Estimate:
  """Of estimates from separate prompts."""
  return Estimate(
    mean=measured.mean - predicted.mean,
    error=float(np.hypot(measured.error, predicted.error)),
    n=measured.n + predicted.n,
  )


def _told(estimate, spec=".3f"):
  return "-" if estimate is None else f"{estimate:{spec}}"


def _numbers(estimate):
  """As JSON: what is not known is null."""
  if estimate is None:
    return None
  error = None if np.isnan(estimate.error) else estimate.error
  return {"length": estimate.mean, "error": error, "items": estimate.n}
