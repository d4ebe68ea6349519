"""The files of what was tuned: trees that `tree=` takes, and a chart."""

from __future__ import annotations

import json
import os
import pathlib
from collections.abc import Sequence

from tv_jax.tune import chart
from tv_jax.tune.results import TUNED, Tuned


def write(out: str | os.PathLike, tuned: Tuned) -> list[pathlib.Path]:
  """Writes tree.json, tree.8.json for each budget, tree.fastest.json, tree.svg.

  Args:
    out: The first of them; the others are called after it.
    tuned: What was found.

  Returns:
    The files.
  """
  out, rows = pathlib.Path(out), {row.name: row for row in tuned.rows}
  texts = {out: _text(tuned, rows[tuned.name])}
  for row in tuned.rows:
    if row.kind == TUNED:
      texts[_beside(out, f".{len(row.tree) - 1}.json")] = _text(tuned, row)
  if tuned.fastest is not None:
    own = max((row for row in tuned.rows if row.seconds), key=_speed)
    texts[_beside(out, ".fastest.json")] = _text(tuned, own)
  texts[_beside(out, ".svg")] = chart.draw(tuned)
  for path, text in texts.items():
    put(path, text)
  return [*texts]


def put(path: pathlib.Path, text: str) -> None:
  """Writes a file whole, or not at all."""
  partial = path.with_name(f"{path.name}.{os.getpid()}.partial")
  try:
    partial.write_text(text)
    partial.replace(path)
  finally:
    partial.unlink(missing_ok=True)


def named(out: str | os.PathLike, budgets: Sequence[int]) -> list[pathlib.Path]:
  """What may be written."""
  out = pathlib.Path(out)
  ends = [f".{count}.json" for count in budgets] + [".fastest.json", ".svg"]
  return [out, *(_beside(out, end) for end in ends)]


def check(out: str | os.PathLike, budgets: Sequence[int]) -> None:
  """Refuses a place where these files cannot be made."""
  out = pathlib.Path(out)
  if out.suffix != ".json":
    raise ValueError(f"{out}: give a name that ends in .json")
  if not out.parent.is_dir():
    raise ValueError(f"{out}: there is no folder {out.parent}")
  if not os.access(out.parent, os.W_OK):
    raise ValueError(f"{out}: no permission to write there")
  for path in named(out, budgets):
    if path.exists():
      raise ValueError(f"{path} exists: remove it, or give another name")


def _beside(out, end):
  return out.with_name(out.name.removesuffix(".json") + end)


def _speed(row):
  return row.speed


def _text(tuned, row):
  return json.dumps(tuned.of(row), indent=1) + "\n"
