"""What was found: a table, a chart, and files that `tree=` takes."""

from __future__ import annotations

import dataclasses
import json
import os
import pathlib

import numpy as np
import rich.table

from tv_jax.edge import disk, tables
from tv_jax.engine.estimates import Estimate
from tv_jax.runs.report import canvas
from tv_jax.tree import Tree

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
    name: Of the row of the best tree of the asked number of nodes.
    rows: All trees, by name.
    plain: Seconds of a token of plain decoding; None if it was not timed.
    check: Realised less expected length in the wide tree's run: 0 within its
      error; None if another rule ran.
    settings: The rule, the proposal, the temperature, and what else files say.
    notes: What to know about these numbers.
  """

  name: str
  rows: dict[str, Row]
  plain: float | None
  check: Estimate | None
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

  @property
  def off(self) -> Estimate:
    """Returns the asked tree's measured length less the predicted one.

    The two are from separate prompts, so that their errors add up.
    """
    row = self.rows[self.name]
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
    if self.plain:
      columns += ["decoded", "ms a cycle", "tokens/s", "over plain"]
    table = rich.table.Table(*columns)
    if self.plain:
      ms, speed = 1e3 * self.plain, 1 / self.plain
      table.add_row("plain", *[""] * 6, f"{ms:.2f}", f"{speed:.1f}", "1.00")
    for row in self.rows.values():
      cells = [
        row.name,
        str(len(row.tree) - 1),
        " ".join(str(len(level)) for level in row.tree.levels[1:]),
        _cell(row.predicted),
        _cell(row.measured),
        "-" if row.name == self.name else _cell(row.gain, "+.3f"),
      ]
      if self.plain and row.seconds:
        cells += [_cell(row.decoded), f"{1e3 * row.seconds:.2f}"]
        cells += [f"{row.speed:.1f}", f"{row.speed * self.plain:.2f}"]
      table.add_row(*cells)
    return table

  def lines(self) -> list[str]:
    """Returns what to know about the table."""
    lines = [f"other prompts - predicted, of {self.name} = {self.off:+.3f}"]
    if self.check:
      lines.append(f"check: realised - expected = {self.check:+.3f}")
    return [*lines, *self.notes]

  def save(self, out: str | os.PathLike) -> list[pathlib.Path]:
    """Writes the trees and the chart; returns the paths.

    They are `out`, the asked tree, such as tree.json; and beside it
    tree.8.json of each number of nodes, tree.fastest.json and tree.svg.
    """
    rows = {"": self.rows[self.name]} | {
      f".{len(row.tree) - 1}": row
      for row in self.rows.values()
      if row.kind == TUNED
    }
    if self.fastest:
      rows[".fastest"] = self.fastest
    texts = {
      beside(out, f"{end}.json"): json.dumps(self._said(row), indent=1) + "\n"
      for end, row in rows.items()
    }
    texts[beside(out, ".svg")] = self.chart()
    for path, text in texts.items():
      disk.write_atomic(path, text)
    return [*texts]

  def _said(self, row: Row) -> dict:
    """Returns what a file says about a tree."""
    said = {
      "parents": [*row.tree.parents],
      "nodes": len(row.tree) - 1,
      "depth": row.tree.max_depth,
      "name": row.name,
      **self.settings,
      "predicted": _numbers(row.predicted),
      "measured": _numbers(row.measured),
    }
    if self.plain and row.seconds:
      said["milliseconds_a_cycle"] = 1e3 * row.seconds
      said["tokens_per_second"] = row.speed
      said["plain_tokens_per_second"] = 1 / self.plain
    return said

  def chart(self) -> str:
    """Draws acceptance length on other prompts against nodes, as SVG."""
    rows = [row for row in self.rows.values() if row.measured]
    lines = {
      "tuned": (TUNED, {"color": canvas.BLUE, "marker": "o"}),
      "Sequoia's model": (
        SEQUOIA,
        {"color": canvas.ORANGE, "marker": "D"},
      ),
    }
    points = [row for row in rows if row.kind == NAMED]

    def panel(title, axes):
      del title

      def draw(rows, **style):
        axes.errorbar(
          [len(row.tree) - 1 for row in rows],
          [row.measured.mean for row in rows],
          yerr=[row.measured.error for row in rows],
          markersize=4,
          **style,
        )

      for label, (kind, style) in lines.items():
        draw([row for row in rows if row.kind == kind], label=label, **style)
      for i, row in enumerate(points):
        draw(
          [row],
          label=tables.plain(row.name),
          color=canvas.SLATE,
          marker="s^vDPX"[i % 6],
          linestyle="none",
        )
      axes.set_xscale("log", base=2)
      sizes = [len(row.tree) - 1 for row in rows if row.kind == TUNED]
      axes.set_xticks(sizes, [*map(str, sizes)])
      axes.minorticks_off()
      axes.grid(axis="y")

    return canvas.panels(
      ["on other prompts"],
      panel,
      height=2.6,
      x="drafted nodes of the tree",
      y="tokens a cycle",
    )


def beside(out: str | os.PathLike, end: str) -> pathlib.Path:
  """Returns the name of a file beside tree.json, such as tree.8.json."""
  path = pathlib.Path(out)
  return path.with_name(path.name.removesuffix(".json") + end)


def _cell(estimate: Estimate | None, spec: str = ".3f") -> str:
  return "-" if estimate is None else f"{estimate:{spec}}"


def _numbers(estimate: Estimate | None) -> dict | None:
  """As JSON: what is not known is null."""
  if estimate is None:
    return None
  error = None if np.isnan(estimate.error) else estimate.error
  return {"length": estimate.mean, "error": error, "items": estimate.n}
