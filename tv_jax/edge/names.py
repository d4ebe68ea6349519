"""What is named: a built-in, `package.module:name`, or the thing itself.

Rules, proposals and trees of one's own are named alike everywhere: in configs,
flags and arguments. The current directory counts, whatever program asks.
"""

from __future__ import annotations

import dataclasses
import functools
import hashlib
import importlib
import os
import pathlib
import pkgutil
import re
import sys
import sysconfig
import traceback
import types
from collections.abc import Iterator, Mapping

_FOREIGN = re.compile(r"[A-Za-z_][\w.]*:[A-Za-z_][\w.]*")


def split(text: str | None) -> list[str]:
  """Returns the names in a text, with spaces between, or commas.

  The commas of branching:4,2,1 separate nothing: no name begins with a digit.
  """
  return [name for name in re.split(r"\s+|,(?!\d)", text or "") if name]


def is_foreign(text: str) -> bool:
  """Returns whether a text has the form `package.module:name`."""
  return bool(_FOREIGN.fullmatch(text))


def find(table: Mapping, text: str, kind: str):
  """Returns what a text names: an entry of a table, or `module:name`.

  `kind` is "verifier" and the like, for errors.
  """
  if text in table:
    return table[text]
  if ":" not in text:
    raise ValueError(
      f"{kind} {text!r}: not one of {', '.join(table)}, nor module:name"
    )
  return load(text, kind)


def load(text: str, kind: str):
  """Returns the object that `package.module:name` is, as Python imports it."""
  before = list(sys.path)
  sys.path.append(os.getcwd())
  try:
    importlib.invalidate_caches()
    return pkgutil.resolve_name(text)
  except ModuleNotFoundError as error:
    raise ValueError(
      f"{kind} {text!r}: {error}; run from the module's folder, or set"
      " PYTHONPATH"
    ) from error
  except (AttributeError, ValueError) as error:
    raise ValueError(f"{kind} {text!r}: {error}") from error
  finally:
    sys.path[:] = before


def raised(error: BaseException) -> str:
  """Returns an error of a user's function in one line, with its place."""
  place = ""
  for frame in traceback.extract_tb(error.__traceback__):
    path = pathlib.Path(frame.filename).resolve()
    if not _installed(path):
      place = f" ({path.name}, line {frame.lineno})"
  # jax goes on about where it was traced.
  reason = str(error).partition("The error occurred while tracing")[0]
  reason = " ".join(reason.split())
  if place or not isinstance(error, ValueError):
    reason = f"{type(error).__name__}: {reason}"
  return reason + place


def of(thing) -> str:
  """Returns what an object is called, `module:name`; "" if nothing names it.

  The name is the one under which the module of its functions holds it, or else
  a function's own; a `functools.partial` says what it binds as well.
  """
  for function in _functions(thing):
    module = function.__module__
    held = vars(sys.modules[module]) if module in sys.modules else {}
    names = [name for name, value in held.items() if value is thing]
    if isinstance(thing, functools.partial):
      bound = [*map(repr, thing.args)]
      bound += [f"{key}={value!r}" for key, value in thing.keywords.items()]
      names.append(f"{function.__qualname__}({', '.join(bound)})")
    if isinstance(thing, types.FunctionType):
      names.append(function.__qualname__)
    if names:
      # What a script or a notebook defines cannot be imported by its name.
      return names[0] if module == "__main__" else f"{module}:{names[0]}"
  return ""


def source_hash(thing, name: str = "") -> str:
  """Returns a hash of the sources of a user's thing; "" for a built-in.

  They are the files of its functions, and of all that these refer to but is not
  installed. If it was named as `module:name`, that module counts too.
  """
  files: set[pathlib.Path] = set()
  if is_foreign(name):
    _collect(name.partition(":")[0], files)
  for function in _functions(thing):
    _collect(function.__module__, files)
  if not files:
    return ""
  digest = hashlib.sha256()
  for path in sorted(files):
    digest.update(path.name.encode() + b"\0" + path.read_bytes() + b"\0")
  return digest.hexdigest()[:16]


def _functions(thing) -> Iterator[types.FunctionType]:
  """Yields the Python functions that a thing is made of."""
  if isinstance(thing, functools.partial):
    yield from _functions(thing.func)
  elif isinstance(thing, types.FunctionType):
    yield thing
  elif callable(thing) and not isinstance(thing, type):
    yield from _functions(vars(type(thing)).get("__call__"))
  for value in getattr(thing, "__dict__", {}).values():
    if isinstance(
      value, types.FunctionType | functools.partial
    ) or dataclasses.is_dataclass(value):
      yield from _functions(value)


def _collect(name: str, files: set[pathlib.Path]) -> None:
  """Adds a module's file, and those of the user's that it refers to."""
  module = sys.modules.get(name)
  path = pathlib.Path(getattr(module, "__file__", None) or "").resolve()
  if path in files or not path.is_file() or _installed(path):
    return
  files.add(path)
  for value in [*vars(module).values()]:
    of_module = isinstance(value, types.ModuleType)
    owner = getattr(value, "__name__" if of_module else "__module__", None)
    if isinstance(owner, str):
      _collect(owner, files)


def _installed(path: pathlib.Path) -> bool:
  """Returns whether a file is Python's, a package's, or this one's."""
  folders = map(pathlib.Path, sysconfig.get_paths().values())
  return bool({"site-packages", "dist-packages"} & {*path.parts}) or any(
    path.is_relative_to(folder.resolve())
    for folder in (pathlib.Path(__file__).parents[1], *folders)
  )
