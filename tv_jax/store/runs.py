"""A run's folder as everything that is made of it reads it: checked first.

The store knows lines and their keys; here is what must be in them. Whoever
edits a folder, or brings one of another program, is told in a line.
"""

from __future__ import annotations

import os
import pathlib
from collections.abc import Iterable, Iterator, Mapping

from tv_jax.store import records
from tv_jax.store import unit as unit_lib

PLAIN = "plain"
_NUMBER = (int, float)
_UNKNOWN = (int, float, type(None))  # None stands for a NaN

# A kind is a type or several; a list of a kind; or a dict with these fields.
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
_ANSWER = {
  "tokens": [int],
  "text": str,
  "accepted": [int],
  "expected": {},
  "faults": int,
  "right": (bool, type(None)),
}
_CYCLE = {
  **dict.fromkeys(("parents", "pieces", "p", "q", "drawn", "coins"), list),
  "stop": {},
  "node": int,
}
_METHOD = {
  **dict.fromkeys(("tree", "proposal", "verifier"), str),
  **dict.fromkeys(("temperature", "compile_seconds"), _NUMBER),
  "seconds": [_NUMBER],
  "tokens": [int],
  "cycles": [int],
  "stages": (dict, type(None)),
}


def read(folder: str | os.PathLike) -> unit_lib.Unit:
  """Reads a run's folder.

  Args:
    folder: One that `tv_jax.main` has begun, finished or not.

  Returns:
    What is in it.

  Raises:
    ValueError: In a line, what a file lacks.
    OSError: A file could not be read.
  """
  folder = pathlib.Path(folder)
  unit = unit_lib.read(folder)
  _refuse(folder / "config.json", _faults(_CONFIG, unit.config))
  _refuse(folder / "env.json", _faults([{}], unit.environments))
  check(folder, unit.items, unit.config["trees"])
  if unit.timing is not None:
    timing = {"methods": [_METHOD], "environment": {}}
    _refuse(folder / "timing.json", _faults(timing, unit.timing))
    for method in unit.timing["methods"]:
      counts = {len(method[name]) for name in ("seconds", "tokens", "cycles")}
      if len(counts) > 1 or not all(method["cycles"]):
        name = f"{method['verifier']} on {method['tree']}"
        _refuse(folder / "timing.json", [f"{name} has other numbers of times"])
  return unit


def check(
  folder: str | os.PathLike, items: Iterable[dict], trees: Iterable[str]
) -> None:
  """Refuses answers of which something is missing.

  Args:
    folder: The run's, for the error.
    items: Lines of its store.
    trees: The run's.

  Raises:
    ValueError: In a line, which answer lacks what.
  """
  trees = {*trees}
  for item in items:
    if faults := [*_wrong(item, trees)]:
      key = ", ".join(f"{name} {item[name]}" for name in records.KEY)
      _refuse(pathlib.Path(folder) / "items.jsonl", faults, f" (item {key})")


def _wrong(item, trees) -> Iterator[str]:
  """What is wrong with an answer."""
  if "error" in item:
    yield from _faults({"error": str}, item)
    return
  yield from _faults(_ANSWER, item)
  if item["verifier"] != PLAIN and item["tree"] not in trees:
    yield f"tree={item['tree']!r} is none of the config's"
  if isinstance(item.get("expected"), Mapping):
    for name, values in item["expected"].items():
      yield from _faults([_UNKNOWN], values, f"expected.{name}")
      if isinstance(values, list) and len(values) != len(
        item.get("accepted", ())
      ):
        yield f"expected.{name} has not a number for each cycle"
  if "trace" in item:
    yield from _faults([_CYCLE], item["trace"], "trace")
    for cycle in item["trace"] if isinstance(item["trace"], list) else ():
      if isinstance(cycle, dict) and "direction" in cycle:  # since it is kept
        yield from _faults({}, cycle["direction"], "trace[].direction")


def _faults(kind, value, where: str = "") -> Iterator[str]:
  """What a JSON value lacks to be of a kind."""
  if isinstance(kind, dict):
    if not isinstance(value, Mapping):
      yield f"{where or 'it'} must hold fields"
      return
    for name, inner in kind.items():
      place = f"{where}.{name}" if where else name
      if name in value:
        yield from _faults(inner, value[name], place)
      else:
        yield f"{place} is missing"
  elif isinstance(kind, list):
    if not isinstance(value, list):
      yield f"{where or 'it'} must be a list"
      return
    for one in value:
      yield from _faults(kind[0], one, f"{where}[]")
  elif not _is(kind, value):
    yield f"{where}={value!r} is of a wrong type"


def _is(kind, value) -> bool:
  """Whether a value is of the type; True is no number."""
  kinds = kind if isinstance(kind, tuple) else (kind,)
  return isinstance(value, kinds) and (
    not isinstance(value, bool) or bool in kinds
  )


def _refuse(path, faults, which: str = "") -> None:
  """Raises if there are faults; the first few are told."""
  if told := [*dict.fromkeys(faults)][:3]:
    raise ValueError(
      f"{path}{which}: {'; '.join(told)}: remove it, or give another folder"
    )
