"""The files of what was tuned: trees that `tree=` takes, and a chart."""

from __future__ import annotations

import json
import os
import pathlib
from collections.abc import Iterable, Mapping, Sequence

from tv_jax.edge import disk
from tv_jax.tune import chart
from tv_jax.tune.results import TUNED, Tuned


def texts(out: str | os.PathLike, tuned: Tuned) -> dict[pathlib.Path, str]:
  """Of tree.json, tree.8.json for each budget, tree.fastest.json, tree.svg.

  Args:
    out: The first of them; the others are called after it.
    tuned: What was found.

  Returns:
    By path.
  """
  out, rows = pathlib.Path(out), {row.name: row for row in tuned.rows}
  found = {out: _text(tuned, rows[tuned.name])}
  for row in tuned.rows:
    if row.kind == TUNED:
      found[_beside(out, f".{len(row.tree) - 1}.json")] = _text(tuned, row)
  if tuned.fastest is not None:
    own = max((row for row in tuned.rows if row.seconds), key=_speed)
    found[_beside(out, ".fastest.json")] = _text(tuned, own)
  found[_beside(out, ".svg")] = chart.draw(tuned)
  return found


def write(out: str | os.PathLike, tuned: Tuned) -> list[pathlib.Path]:
  """Writes the files of `texts`, and says which."""
  found = texts(out, tuned)
  write_all(found)
  return [*found]


def write_all(texts: Mapping[str | os.PathLike, str]) -> None:
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


def named(out: str | os.PathLike, budgets: Sequence[int]) -> list[pathlib.Path]:
  """What may be written."""
  out = pathlib.Path(out)
  ends = [f".{count}.json" for count in budgets] + [".fastest.json", ".svg"]
  return [out, *(_beside(out, end) for end in ends)]


def check(paths: Iterable[str | os.PathLike]) -> None:
  """Refuses files that are there, and two of one name; of folders that are."""
  taken = set()
  for path in map(pathlib.Path, paths):
    if os.path.lexists(path):
      raise ValueError(f"{path} exists: remove it, or give another name")
    folder = path.parent.stat()  # which may be reached by more than one path
    if (place := (folder.st_dev, folder.st_ino, path.name)) in taken:
      raise ValueError(f"{path}: a tree's file has that name: give another")
    taken.add(place)


def _beside(out, end):
  return out.with_name(out.name.removesuffix(".json") + end)


def _speed(row):
  return row.speed


def _text(tuned, row):
  return json.dumps(tuned.of(row), indent=1) + "\n"
