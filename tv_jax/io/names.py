"""Resolves names: a built-in's name, `package.module:name`, or an object.

A user's rules, proposals and trees are named alike in configs, flags and
arguments. Modules in the current directory are found by every command.
"""

from __future__ import annotations

import ast
import dataclasses
import functools
import hashlib
import importlib.util
import itertools
import os
import pathlib
import pkgutil
import re
import sys
import sysconfig
import traceback
import typing
from collections.abc import Iterator, Mapping

from tv_jax.io.errors import UserError

_FOREIGN = re.compile(r"[A-Za-z_][\w.]*:[A-Za-z_][\w.]*")


def split(text: str | None) -> list[str]:
  """Returns the names in a text, with spaces between, or commas.

  The commas of branching:4,2,1 separate nothing: no name begins with a digit.
  """
  return [name for name in re.split(r"\s+|,(?!\d)", text or "") if name]


def is_foreign(text: str) -> bool:
  """Returns whether a text has the form `package.module:name`."""
  return bool(_FOREIGN.fullmatch(text))


def resolve(
  table: Mapping, thing, kind: str, of_function=lambda f: f
) -> typing.Any:
  """Finds a dataclass object by name, and gives every object a name.

  Args:
    table: The built-in objects by name.
    thing: A name in the table, the name of a user's object, "module:name", the
      object, or a function.
    kind: The kind of object, such as "verifier", for errors.
    of_function: Makes an object of a function.

  Returns:
    The object. Its name is the given text; or its attribute `name`; or the name
    of its first function.

  Raises:
    ValueError: The object is unknown, or has a built-in's name.
  """
  text = thing if isinstance(thing, str) else ""
  found: typing.Any = thing
  class_: typing.Any = type(next(iter(table.values())))
  if text and text not in table and ":" not in text:
    raise UserError(
      f"{kind} {text!r}: not one of {', '.join(table)}, nor module:name"
    )
  if text:
    found = table[text] if text in table else load(text, kind)
  if callable(found) and not isinstance(found, type):
    found = of_function(found)
  if not isinstance(found, class_):
    raise UserError(
      f"{kind} {thing!r}: give a name, module:name, or a {class_.__name__}"
    )
  if found in table.values() and text in ("", found.name):
    return found
  functions = filter(callable, vars(found).values())
  name = text or found.name or _function_name(next(functions))
  if name in table:
    raise UserError(
      f"a {kind} of your own has the name {name!r} of a built-in: give it"
      f' another, as in {class_.__name__}(name="mine", ..)'
    )
  return dataclasses.replace(typing.cast(typing.Any, found), name=name)


def load(text: str, kind: str):
  """Imports the object `package.module:name`."""
  before = list(sys.path)
  sys.path.append(os.getcwd())
  try:
    importlib.invalidate_caches()
    return pkgutil.resolve_name(text)
  except ModuleNotFoundError as error:
    raise UserError(
      f"{kind} {text!r}: {error}; run from the module's folder, or set"
      " PYTHONPATH"
    ) from error
  except (AttributeError, ValueError) as error:
    raise UserError(f"{kind} {text!r}: {error}") from error
  finally:
    sys.path[:] = before


def raised(error: BaseException) -> str:
  """Returns an error of a user's function in one line, with its place."""
  place = ""
  for frame in traceback.extract_tb(error.__traceback__):
    path = pathlib.Path(frame.filename).resolve()
    if not _installed(path):
      place = f" ({path.name}, line {frame.lineno})"
  # jax adds a long text about the place where it was traced.
  reason = str(error).partition("The error occurred while tracing")[0]
  reason = " ".join(reason.split())
  if place or not isinstance(error, ValueError):
    reason = f"{type(error).__name__}: {reason}"
  return reason + place


def _function_name(function) -> str:
  """Returns `module:name` of a function, or of the one that a partial binds."""
  while isinstance(function, functools.partial):
    function = function.func
  name = getattr(function, "__qualname__", type(function).__qualname__)
  # What a script or a notebook defines cannot be imported by name.
  module = function.__module__
  return name if module == "__main__" else f"{module}:{name}"


def source_hash(name: str) -> str:
  """Returns a hash of the source of `module:name`; "" for a built-in's name.

  The hash covers the files of the module and of all modules that it imports,
  except installed packages.
  """
  files: set[pathlib.Path] = set()
  if is_foreign(name):
    _collect(name.partition(":")[0], files)
  if not files:
    return ""
  digest = hashlib.sha256()
  for path in sorted(files):
    digest.update(path.name.encode() + b"\0" + path.read_bytes() + b"\0")
  return digest.hexdigest()[:16]


def _collect(name: str, files: set[pathlib.Path]) -> None:
  """Adds a module's file, and the user's modules that it imports."""
  module = sys.modules.get(name)
  path = pathlib.Path(getattr(module, "__file__", None) or "").resolve()
  if path in files or not path.is_file() or _installed(path):
    return
  files.add(path)
  if path.suffix == ".py":
    for imported in _imports(path, getattr(module, "__package__", None) or ""):
      _collect(imported, files)


def _imports(path: pathlib.Path, package: str) -> Iterator[str]:
  """Yields what a file imports when it is loaded: modules, and other names."""
  nodes: list[ast.AST] = [ast.parse(path.read_bytes())]
  while nodes:
    node = nodes.pop()
    # The imports in a function depend on whether it was called before.
    if not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
      nodes += ast.iter_child_nodes(node)
    if isinstance(node, ast.Import):
      for alias in node.names:
        yield from itertools.accumulate(alias.name.split("."), "{}.{}".format)
    elif isinstance(node, ast.ImportFrom):
      relative = "." * node.level + (node.module or "")
      try:
        source = importlib.util.resolve_name(relative, package)
      except ImportError:  # a script's `try: from .helper import ..`
        continue
      yield source
      yield from (f"{source}.{alias.name}" for alias in node.names)


def _installed(path: pathlib.Path) -> bool:
  """Returns whether a file belongs to Python or an installed package."""
  folders = map(pathlib.Path, sysconfig.get_paths().values())
  return bool({"site-packages", "dist-packages"} & {*path.parts}) or any(
    path.is_relative_to(folder.resolve())
    for folder in (pathlib.Path(__file__).parents[1], *folders)
  )
