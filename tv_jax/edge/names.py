"""What is named: a built-in, `package.module:name`, or the thing itself.

Rules, proposals and trees of one's own are named alike everywhere: in configs,
flags and arguments. The current directory counts, whatever program asks.
"""

from __future__ import annotations

import dataclasses
import functools
import hashlib
import importlib
import inspect
import os
import pathlib
import pkgutil
import re
import sys
import sysconfig
import traceback
import types
from collections.abc import Iterable, Iterator, Mapping

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
  """Returns what a text of the user's names: a built-in, or `module:name`.

  Args:
    table: The built-ins.
    text: The name.
    kind: "verifier" and the like, for errors.

  Raises:
    ValueError: There is no such thing.
  """
  if text in table:
    return table[text]
  if ":" not in text:
    raise ValueError(
      f"{kind} {text!r}: not one of {', '.join(table)}, nor module:name"
    )
  return load(text, kind)


def load(text: str, kind: str):
  """Returns the object that `package.module:name` is.

  Raises:
    ValueError: There is no such module, or no such name in it.
    Exception: What the module raised.
  """
  if not is_foreign(text):
    raise ValueError(
      f"{kind} {text!r}: write package.module:name, as Python imports it"
    )
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
  except AttributeError as error:
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
  """Returns what an object is called: `module:name`, as it can be found again.

  It is looked for in the modules that its functions come from. What none of
  them holds is called by where it was defined, a `functools.partial` by its
  function and what it binds. "" for what nothing names.
  """
  for function in _functions(thing):
    module = sys.modules.get(function.__module__)
    for name, value in vars(module).items() if module else ():
      if value is thing:
        return _written(function.__module__, name)
  if isinstance(thing, functools.partial):
    bound = [repr(value) for value in thing.args]
    bound += [f"{name}={value!r}" for name, value in thing.keywords.items()]
    name = of(thing.func)
    return name and f"{name}({', '.join(bound)})"
  if isinstance(thing, types.FunctionType):
    return _written(thing.__module__, thing.__qualname__)
  return ""


def _written(module: str, name: str) -> str:
  # What a script or a notebook defines cannot be imported under its name.
  return name if module == "__main__" else f"{module}:{name}"


def _functions(thing) -> Iterator[types.FunctionType]:
  """Yields the Python functions that a thing is made of."""
  if isinstance(thing, types.FunctionType):
    yield thing
  elif isinstance(thing, functools.partial):
    yield from _functions(thing.func)
  elif callable(thing) and not isinstance(thing, type):
    yield from _functions(vars(type(thing)).get("__call__"))
  for value in getattr(thing, "__dict__", {}).values():
    if isinstance(
      value, types.FunctionType | functools.partial
    ) or dataclasses.is_dataclass(value):
      yield from _functions(value)


def unique(named: Iterable[tuple[str, object]], kind: str) -> dict:
  """Pairs of name and thing as a dict; the same pair twice is one.

  Raises:
    ValueError: Two things have one name.
  """
  table: dict = {}
  for name, thing in named:
    if table.setdefault(name, thing) != thing:
      raise ValueError(
        f"two {kind}s are called {name!r}: give each a name of its own, as in"
        f" {kind.capitalize()}(name=...)"
      )
  return table


def sources(named: Mapping[str, object]) -> dict[str, str]:
  """Returns the hashes of what is no built-in, by name."""
  hashes = {name: source_hash(named[name], name) for name in sorted(named)}
  return {name: digest for name, digest in hashes.items() if digest}


def source_hash(thing, name: str = "") -> str:
  """Returns a hash of the sources of a user's thing; "" for a built-in.

  They are the files of its functions, and of all that these refer to but is not
  installed. If it was named as `module:name`, that module counts too.
  """
  files: set[pathlib.Path] = set()
  if is_foreign(name):
    _collect(sys.modules.get(name.partition(":")[0]), files)
  for function in _functions(thing):
    _collect(inspect.getmodule(function), files, function.__code__.co_filename)
  if not files:
    return ""
  digest = hashlib.sha256()
  for path in sorted(files):
    digest.update(path.name.encode() + b"\0" + path.read_bytes() + b"\0")
  return digest.hexdigest()[:16]


def _collect(module, files: set[pathlib.Path], filename: str = "") -> None:
  """Adds a module's file, and those of the user's that it refers to."""
  path = pathlib.Path(getattr(module, "__file__", None) or filename).resolve()
  if path in files or not path.is_file() or _installed(path):
    return
  files.add(path)
  for value in list(vars(module).values()) if module else ():
    if isinstance(value, types.ModuleType):
      _collect(value, files)
    elif isinstance(name := getattr(value, "__module__", None), str):
      _collect(sys.modules.get(name), files)


def _installed(path: pathlib.Path) -> bool:
  """Returns whether a file is Python's, a package's, or this one's."""
  folders = map(pathlib.Path, sysconfig.get_paths().values())
  return bool({"site-packages", "dist-packages"} & {*path.parts}) or any(
    path.is_relative_to(folder.resolve())
    for folder in (pathlib.Path(__file__).parents[1], *folders)
  )
