"""What is named: a built-in, `package.module:name`, or the thing itself.

Rules, proposals and trees of one's own are named alike everywhere: in configs,
flags and arguments. The current directory counts, whatever program asks.
"""

from __future__ import annotations

import dataclasses
import functools
import hashlib
import importlib
import importlib.util
import inspect
import os
import pathlib
import re
import sys
import sysconfig
import traceback
import types
from collections.abc import Iterable, Iterator, Mapping

_NOTHING = types.ModuleType("nothing")
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
  """Returns what a text names: a table's entry, or `module:name`, imported.

  Args:
    table: The built-ins.
    text: Of the user's.
    kind: "verifier" and the like, for errors.

  Returns:
    The entry, or the imported object, whatever it is.

  Raises:
    ValueError: In one line, why nothing was found.
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
    ValueError: In one line, what is wrong: with the text, with the module
      (whatever it raised), or that there is no such name in it.
  """
  hint = ""
  if (module := text.partition(":")[0]).endswith(".py"):
    hint = f"; a module is named without .py: {pathlib.Path(module).stem}:.."
  if hint or not is_foreign(text):
    raise ValueError(
      f"{kind} {text!r}: write package.module:name, as Python imports it{hint}"
    )
  module, _, name = text.partition(":")
  found = _import(module, f"{kind} {text!r}")
  for part in name.split("."):
    if not hasattr(found, part):
      raise ValueError(f"{kind} {text!r}: {module} has no {part!r}")
    found = getattr(found, part)
  return found


def _import(module, what):
  """Returns a module; the current directory is looked at as well, and last."""
  here = os.getcwd()
  added = here not in sys.path and "" not in sys.path
  if added:
    sys.path.append(here)
  try:
    importlib.invalidate_caches()
    return importlib.import_module(module)
  except KeyboardInterrupt:
    raise
  except BaseException as error:  # a module may also exit
    raise ValueError(f"{what}: {_told(module, error)}") from error
  finally:
    if added:
      sys.path.remove(here)


def _told(module, error) -> str:
  """Returns why a module was not imported, with the line of it that failed."""
  if isinstance(error, ModuleNotFoundError) and error.name in _parents(module):
    return f"{error}; run from the module's folder, or set PYTHONPATH"
  if isinstance(error, SystemExit):
    reason = "it exits when it is imported"
  else:
    reason = f"{type(error).__name__}: {' '.join(str(error).split())}"
  if isinstance(error, SyntaxError):
    return f"{module} cannot be imported: {reason}"
  own = pathlib.Path(__file__)
  lines = [
    f"{pathlib.Path(frame.filename).name}, line {frame.lineno}"
    for frame in traceback.extract_tb(error.__traceback__)
    if pathlib.Path(frame.filename) != own and "importlib" not in frame.filename
  ]
  where = f" ({lines[-1]})" if lines else ""
  return f"{module} cannot be imported{where}: {reason}"


def raised(error: BaseException) -> str:
  """Returns an error of a user's function in one line, with its place."""
  package, lines, inside = pathlib.Path(__file__).parents[1], [], False
  for frame in traceback.extract_tb(error.__traceback__):
    path = pathlib.Path(frame.filename).resolve()
    inside |= path.is_relative_to(package)  # from here on: who called it?
    if inside and not _installed(path):
      lines.append(f" ({path.name}, line {frame.lineno})")
  # jax goes on about where it was traced.
  reason = str(error).partition("The error occurred while tracing")[0]
  reason = " ".join(reason.split())
  if lines or not isinstance(error, ValueError):
    reason = f"{type(error).__name__}: {reason}"
  return reason + "".join(lines[-1:])


def _parents(module):
  parts = module.split(".")
  return {".".join(parts[:n]) for n in range(1, len(parts) + 1)}


def of(thing) -> str:
  """Returns what an object is called: `module:name`, as it can be found again.

  It is looked for in the modules that its functions come from. What none of
  them holds is called by where it was defined, a `functools.partial` by its
  function and what it binds. "" for what nothing names.
  """
  if held := _held(thing):
    return held
  if isinstance(thing, functools.partial):
    bound = [repr(value) for value in thing.args]
    bound += [f"{name}={value!r}" for name, value in thing.keywords.items()]
    name = of(thing.func)
    return name and f"{name}({', '.join(bound)})"
  if isinstance(thing, types.FunctionType):
    return _written(thing.__module__, thing.__qualname__)
  return ""


def _held(thing) -> str | None:
  """Returns the name under which a module of its functions holds a thing."""
  for function in _functions(thing):
    module = function.__module__
    for name, value in vars(sys.modules.get(module, _NOTHING)).items():
      if value is thing:
        return _written(module, name)
  return None


def _written(module, name) -> str:
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
    if name in table and table[name] != thing:
      raise ValueError(
        f"two {kind}s are called {name!r}: give each a name of its own, as in"
        f" {kind.capitalize()}(name=...)"
      )
    table[name] = thing
  return table


def sources(named: Mapping[str, object]) -> dict[str, str]:
  """Returns the hashes of what is no built-in, by name."""
  hashes = {name: source_hash(thing, name) for name, thing in named.items()}
  return {name: one for name, one in sorted(hashes.items()) if one}


def source_hash(thing, name: str = "") -> str:
  """Returns a hash of the sources of a user's thing; "" for a built-in.

  Args:
    thing: The thing.
    name: Of it, if it was named as `module:name`: that module counts too.

  Returns:
    Of the files of its functions, and of all that these refer to but is not
    installed.
  """
  files: dict[pathlib.Path, None] = {}
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


def _collect(module, files, filename=None):
  """Adds a module's file, and those of the user's that it refers to."""
  path = getattr(module, "__file__", None) or filename
  path = pathlib.Path(path).resolve() if path else None
  if path is None or path in files or not path.is_file() or _installed(path):
    return
  files[path] = None
  for value in list(vars(module).values()) if module else ():
    if isinstance(value, types.ModuleType):
      _collect(value, files)
    elif isinstance(own := getattr(value, "__module__", None), str):
      _collect(sys.modules.get(own), files)


def _installed(path: pathlib.Path) -> bool:
  """Returns whether a file is Python's, a package's, or this one's."""
  folders = map(pathlib.Path, sysconfig.get_paths().values())
  return bool({"site-packages", "dist-packages"} & {*path.parts}) or any(
    path.is_relative_to(folder.resolve())
    for folder in (pathlib.Path(__file__).parents[1], *folders)
  )
