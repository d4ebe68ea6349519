"""The result of `tune`: a table of trees."""

from __future__ import annotations

import dataclasses
import os
import pathlib

import numpy as np
import pandas as pd

from tv_jax.engine.results import Estimate
from tv_jax.io import disk
from tv_jax.runs import tables
from tv_jax.tree import Tree


@dataclasses.dataclass(frozen=True, kw_only=True)
class TreeResult:
  """Length and speed of one tree.

  Attributes:
    tree: The tree.
    measured: Acceptance length on prompts that were not tuned on; None if the
      wide tree does not contain this tree.
    gain: `measured` minus the chosen tree's, on the same cycles.
    decoded: Acceptance length when the tree itself decodes a few prompts.
    seconds: Median time of a cycle; None if the tree was not timed.
  """

  tree: Tree
  measured: Estimate | None = None
  gain: Estimate | None = None
  decoded: Estimate | None = None
  seconds: float | None = None

  @property
  def speed(self) -> float:
    """Returns tokens per second without prefill; NaN if not timed."""
    length = self.measured or self.decoded
    return length.mean / self.seconds if length and self.seconds else np.nan


@dataclasses.dataclass(frozen=True, kw_only=True)
class Tuned:
  """The trees that `tune` compared; print it for a table.

  Attributes:
    name: Name of the chosen tree: the best one of the requested size.
    rows: Results by name.
    plain: Seconds per token of plain decoding; None if it was not timed.
    check: Realised minus expected length of the wide tree: 0 within its error.
    settings: The rule, proposal and other options, as saved in the file.
    notes: Limitations of these numbers.
  """

  name: str
  rows: dict[str, TreeResult]
  plain: float | None
  check: Estimate
  settings: dict
  notes: tuple[str, ...]

  @property
  def tree(self) -> Tree:
    """Returns the chosen tree."""
    return self.rows[self.name].tree

  def __repr__(self) -> str:
    """Returns the table, with the check and the notes below it."""
    return tables.markdown(self.table())

  def table(self) -> tables.Table:
    """Returns a table with a row for each tree."""
    header = ["tree", "nodes", "by depth", "length", f"minus {self.name}"]
    rows = [
      [
        name,
        str(len(row.tree) - 1),
        " ".join(str(len(level)) for level in row.tree.levels[1:]),
        tables.text(row.measured, ".3f"),
        tables.text(None if name == self.name else row.gain, "+.3f"),
      ]
      for name, row in self.rows.items()
    ]
    if self.plain:
      header += ["decoded", "ms a cycle", "tokens/s", "over plain"]
      for cells, row in zip(rows, self.rows.values(), strict=True):
        speeds = _speeds(row.seconds or np.nan, row.speed, self.plain)
        cells += [tables.text(row.decoded, ".3f"), *speeds]
      speeds = _speeds(self.plain, 1 / self.plain, self.plain)
      rows.insert(0, ["plain", *[tables.NOTHING] * 5, *speeds])
    title = "{verifier} with {proposal} at temperature {temperature:g}"
    title = title.format_map(self.settings)
    check = f"check: realised - expected = {self.check:+.3f}"
    cells = pd.DataFrame(rows, columns=header).set_index("tree")
    return tables.Table(title, cells, (check, *self.notes))

  def save(self, path: str | os.PathLike) -> None:
    """Writes the chosen tree as a JSON file, which `tree=` reads."""
    content = {"parents": [*self.tree.parents], **self.settings}
    if length := self.rows[self.name].measured:
      content["measured"] = {
        "length": length.mean,
        "error": None if np.isnan(length.error) else length.error,
        "items": length.n,
      }
    disk.write_json(pathlib.Path(path), content)


def _speeds(seconds: float, speed: float, plain: float) -> list[str]:
  return [f"{1e3 * seconds:.2f}", f"{speed:.1f}", f"{speed * plain:.2f}"]
