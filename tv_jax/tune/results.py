"""What `tune` returns: a table, a chart, and files that `tree=` takes."""

from __future__ import annotations

import dataclasses
import json
import os
import pathlib

import numpy as np

from tv_jax.edge import disk, tables
from tv_jax.engine.results import Estimate
from tv_jax.runs.report import canvas
from tv_jax.runs.report.tables import estimate
from tv_jax.tree import Tree

# Before a number of nodes: the name of their best tree.
TUNED = "tuned:"


@dataclasses.dataclass(frozen=True, kw_only=True)
class Row:
  """One tree.

  Attributes:
    name: Its name in the table.
    tree: The tree.
    measured: Acceptance length, by prompts that it was not tuned on; None if
      the tree is not part of the wide one.
    gain: By how much it is longer than the asked tree, on the same cycles.
    decoded: Acceptance length where the tree itself ran, on some of the others.
    seconds: What a cycle takes; None if it was not timed.
  """

  name: str
  tree: Tree
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
    name: Of the row of the best tree of the asked number of nodes.
    rows: All trees, by name.
    plain: Seconds of a token of plain decoding; None if it was not timed.
    check: Realised less expected length in the wide tree's run: 0 within its
      error.
    settings: The rule, the proposal, the temperature, and what else files say.
    notes: What to know about these numbers.
  """

  name: str
  rows: dict[str, Row]
  plain: float | None
  check: Estimate
  settings: dict
  notes: tuple[str, ...]

  @property
  def tree(self) -> Tree:
    """Returns the best tree of the asked number of nodes."""
    return self.rows[self.name].tree

  @property
  def fastest(self) -> Row | None:
    """Returns the tree of the most tokens a second; None if none was timed."""
    timed = [row for row in self.rows.values() if row.seconds]
    return max(timed, key=lambda row: row.speed, default=None)

  def __repr__(self) -> str:
    """Returns the table, and what to know about it."""
    return "\n".join([tables.markdown(self.table()), *self.lines()])

  def table(self) -> tables.Table:
    """Returns a table with a row for each tree."""
    header = ["tree", "nodes", "by depth", "length", f"minus {self.name}"]
    rows = [
      [
        row.name,
        str(len(row.tree) - 1),
        " ".join(str(len(level)) for level in row.tree.levels[1:]),
        estimate(row.measured, ".3f"),
        estimate(None if row.name == self.name else row.gain, "+.3f"),
      ]
      for row in self.rows.values()
    ]
    if self.plain:
      header += ["decoded", "ms a cycle", "tokens/s", "over plain"]
      for cells, row in zip(rows, self.rows.values(), strict=True):
        speeds = _speeds(row.seconds or np.nan, row.speed, self.plain)
        cells += [estimate(row.decoded, ".3f"), *speeds]
      speeds = _speeds(self.plain, 1 / self.plain, self.plain)
      rows.insert(0, ["plain", *[tables.NOTHING] * 5, *speeds])
    what = "{verifier} with {proposal} at temperature {temperature:g}"
    return tables.Table(what.format_map(self.settings), [], header, rows)

  def lines(self) -> list[str]:
    """Returns what to know about the table."""
    lines = [f"check: realised - expected = {self.check:+.3f}"]
    if (first := self.fastest) and self.plain:
      lines.append(
        f"fastest here: {first.name}, {first.speed * self.plain:.2f} times"
        " plain decoding, of the trees timed in turn"
      )
    return [*lines, *self.notes]

  def save(self, out: str | os.PathLike) -> list[pathlib.Path]:
    """Writes the trees and the chart; returns the paths.

    They are `out`, the asked tree, such as tree.json; and beside it
    tree.8.json of each number of nodes, tree.fastest.json and tree.svg.
    """
    rows = {"": self.rows[self.name], ".fastest": self.fastest}
    for row in self.rows.values():
      if row.name.startswith(TUNED):
        rows[f".{len(row.tree) - 1}"] = row
    texts = {
      f"{end}.json": json.dumps(self._content(row), indent=1)
      for end, row in rows.items()
      if row
    }
    texts[".svg"] = self.chart().rstrip()
    stem = str(out).removesuffix(".json")
    for end, text in texts.items():
      disk.write_atomic(f"{stem}{end}", f"{text}\n")
    return [pathlib.Path(f"{stem}{end}") for end in texts]

  def _content(self, row: Row) -> dict:
    """Returns what a file says about a tree; what is not known is null."""
    length = row.measured
    return {
      "parents": [*row.tree.parents],
      "nodes": len(row.tree) - 1,
      "depth": row.tree.max_depth,
      "name": row.name,
      **self.settings,
      "measured": length
      and {
        "length": length.mean,
        "error": None if np.isnan(length.error) else length.error,
        "items": length.n,
      },
    }

  def chart(self) -> str:
    """Draws acceptance length against nodes, as SVG."""
    lines: dict[str, dict[float, Estimate]] = {}
    for name, row in self.rows.items():
      if row.measured:
        line = "tuned" if name.startswith(TUNED) else row.name
        lines.setdefault(line, {})[len(row.tree) - 1] = row.measured
    x, y = "drafted nodes of the tree", "tokens a cycle"
    return canvas.lines({"on other prompts": lines}, x=x, y=y, height=2.6)


def _speeds(seconds: float, speed: float, plain: float) -> list[str]:
  return [f"{1e3 * seconds:.2f}", f"{speed:.1f}", f"{speed * plain:.2f}"]
