"""The files of what was tuned: trees that `tree=` takes, and a chart."""

from __future__ import annotations

import json
import os
import pathlib
from collections.abc import Iterable, Mapping

from tv_jax.edge import disk
from tv_jax.runs.report import canvas, fragments, palette
from tv_jax.tune.results import NAMED, SEQUOIA, TUNED, Row, Tuned


def texts(out: str | os.PathLike, tuned: Tuned) -> dict[pathlib.Path, str]:
  """Returns contents by path.

  For tree.json, tree.8.json for each budget, tree.fastest.json and tree.svg.

  Args:
    out: The first of them; the others are called after it.
    tuned: What was found.
  """
  out = pathlib.Path(out)

  def text(row: Row) -> str:
    return json.dumps(tuned.of(row), indent=1) + "\n"

  found = {out: ""}
  for row in tuned.rows:
    if row.name == tuned.name:
      found[out] = text(row)
    if row.kind == TUNED:
      found[_beside(out, f".{len(row.tree) - 1}.json")] = text(row)
  timed = [row for row in tuned.rows if row.seconds]
  if timed:
    fastest = max(timed, key=lambda row: row.speed)
    found[_beside(out, ".fastest.json")] = text(fastest)
  found[_beside(out, ".svg")] = chart(tuned)
  return found


def write_all(texts: Mapping[pathlib.Path, str]) -> None:
  """Writes all of the files or, where a disk is full, none."""
  done = []
  try:
    for path, text in texts.items():
      disk.write_atomic(path, text)
      done.append(path)
  except BaseException:
    for path in done:
      os.unlink(path)
    raise


def named(out: str | os.PathLike, budgets: Iterable[int]) -> list[pathlib.Path]:
  """Returns the paths that may be written."""
  out = pathlib.Path(out)
  ends = [f".{count}.json" for count in budgets] + [".fastest.json", ".svg"]
  return [out, *(_beside(out, end) for end in ends)]


def check(paths: Iterable[str | os.PathLike]) -> None:
  """Refuses files that exist, and two of one place; their folders exist."""
  taken = set()
  for path in map(pathlib.Path, paths):
    if os.path.lexists(path):
      raise ValueError(f"{path} exists: remove it, or give another name")
    folder = path.parent.stat()  # which may be reached by more than one path
    if (place := (folder.st_dev, folder.st_ino, path.name)) in taken:
      raise ValueError(f"{path}: a tree's file has that name: give another")
    taken.add(place)


def _beside(out: pathlib.Path, end: str) -> pathlib.Path:
  return out.with_name(out.name.removesuffix(".json") + end)


def chart(tuned: Tuned) -> str:
  """Draws acceptance length against nodes, predicted and measured, as SVG."""
  values = {
    "predicted": lambda row: row.predicted,
    "on other prompts": lambda row: row.measured,
  }
  known = [row for row in tuned.rows if row.measured]

  def panel(title, axes):
    def draw(rows, **style):
      found = [values[title](row) for row in rows]
      axes.errorbar(
        [len(row.tree) - 1 for row in rows],
        [value.mean for value in found],
        yerr=[value.error for value in found],
        **style,
      )

    for kind, label, color, marker, width in (
      (TUNED, "tuned", palette.BLUE, "o", 1.4),
      (SEQUOIA, "Sequoia's model", palette.ORANGE, "D", 0.9),
    ):
      draw(
        [row for row in known if row.kind == kind],  # ascending
        color=color.light,
        marker=marker,
        markersize=4,
        linewidth=width,
        label=label,
      )
    for i, row in enumerate(row for row in known if row.kind == NAMED):
      draw(
        [row],
        color=palette.SLATE.light,
        marker="s^vDPX"[i % 6],
        markersize=5,
        linestyle="none",
        label=fragments.plain(row.name),
      )
    axes.set_xscale("log", base=2)
    sizes = [len(row.tree) - 1 for row in known if row.kind == TUNED]
    axes.set_xticks(sizes, [*map(str, sizes)])
    axes.minorticks_off()
    axes.grid(axis="y")

  return canvas.panels(
    [*values],
    panel,
    height=2.6,
    x="drafted nodes of the tree",
    y="tokens a cycle",
  )
