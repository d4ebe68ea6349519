"""A run's folder as everything that is made of it reads it: checked first.

The store knows answers; here is what must be in a run's other files. Whoever
edits a folder, or brings one of another program, is told in a line.
"""

import os
import pathlib
from collections.abc import Iterable

from tv_jax.runs import records
from tv_jax.runs.records import Answer
from tv_jax.runs.store import unit as unit_lib

_NUMBER = (int, float)
# Kinds as `records.faults` reads them.
_CONFIG = {
  "experiment": str,
  "models": {"target": str, "draft": str, "draft_kind": str},
  "questions": str,
  "trees": [str],
  "verifiers": [str],
  "proposals": [str],
  "temperatures": [_NUMBER],
  "seeds": [int],
  "baseline": str,
}
_TIMED = {
  **dict.fromkeys(("tree", "proposal", "verifier"), str),
  **dict.fromkeys(("temperature", "compile_seconds"), _NUMBER),
  "questions": [(int, str)],
  "seconds": [_NUMBER],
  "tokens": [int],
  "cycles": [int],
  "stages": (dict, type(None)),
}


def read(folder: str | os.PathLike) -> unit_lib.Unit:
  """Reads a folder that `tv_jax.main` has begun, finished or not.

  Raises:
    ValueError: In a line, what a file lacks.
    OSError: A file could not be read.
  """
  folder = pathlib.Path(folder)
  unit = unit_lib.read(folder)
  _refuse(folder / "config.json", records.faults(_CONFIG, unit.config))
  _refuse(folder / "env.json", records.faults([{}], unit.environments))
  check(folder, unit.items, unit.config["trees"])
  if unit.timing is not None:
    timing = {"methods": [_TIMED], "environment": {}}
    _refuse(folder / "timing.json", records.faults(timing, unit.timing))
    methods = unit.timing["methods"]
    for method in methods:
      counts = {
        len(method[name])
        for name in ("questions", "seconds", "tokens", "cycles")
      }
      name = f"{method['verifier']} on {method['tree']}"
      if len(counts) > 1 or not all(method["cycles"]):
        _refuse(folder / "timing.json", [f"{name} has other numbers of times"])
      if method["questions"] != methods[0]["questions"]:
        _refuse(
          folder / "timing.json", [f"{name} was timed on other questions"]
        )
  return unit


def check(
  folder: str | os.PathLike, answers: Iterable[Answer], trees: Iterable[str]
) -> None:
  """Refuses answers on trees that are none of the run's, in a line."""
  trees = {*trees}
  for answer in answers:
    method = answer.method
    if answer.error is None and not (method.plain or method.tree in trees):
      wrong = f"tree={method.tree!r} is none of the config's"
      path = pathlib.Path(folder) / "items.jsonl"
      _refuse(path, [wrong], f" ({answer.key})")


def _refuse(path, faults, which: str = "") -> None:
  """Raises if there are faults; the first few are told."""
  if told := [*dict.fromkeys(faults)][:3]:
    raise ValueError(
      f"{path}{which}: {'; '.join(told)}: remove it, or give another folder"
    )
