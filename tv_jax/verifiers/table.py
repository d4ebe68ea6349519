"""The rules by name."""

import importlib
from collections.abc import Callable

from tv_jax.verifiers import (
  block,
  token_level,
  token_level_loop,
  traversal,
  traversal_loop,
)
from tv_jax.verifiers.decision import Verifier

VERIFIERS = {
  "token_level": Verifier(
    decide=token_level.decide, stop_law=token_level.stop_law
  ),
  "token_level_loop": Verifier(
    decide=token_level_loop.decide, stop_law=token_level_loop.stop_law
  ),
  "traversal": Verifier(decide=traversal.decide, stop_law=traversal.stop_law),
  "traversal_loop": Verifier(
    decide=traversal_loop.decide, stop_law=traversal_loop.stop_law
  ),
  "block": Verifier(
    decide=block.decide, stop_law=block.stop_law, chains_only=True
  ),
}


def resolve(verifier: Verifier | Callable | str) -> Verifier:
  """The rule of this name, or this `decide` as a rule."""
  if isinstance(verifier, Verifier):
    return verifier
  if isinstance(verifier, str):
    return lookup(VERIFIERS, verifier, "verifier")
  if callable(verifier):
    return Verifier(decide=verifier)
  raise ValueError(
    f"verifier {verifier!r}: give a name, a Verifier or a decide function"
  )


def find(name: str) -> Verifier:
  """The rule of a name, or of package.module:function, which is imported."""
  if ":" not in name:
    try:
      return lookup(VERIFIERS, name, "verifier")
    except ValueError as error:
      raise ValueError(f"{error}, nor module:function") from error
  module, _, attribute = name.partition(":")
  try:
    found = getattr(importlib.import_module(module), attribute)
    if not (isinstance(found, Verifier) or callable(found)):
      raise ValueError(
        f"verifier {name!r}: {found!r} is neither a function nor a Verifier"
      )
    return resolve(found)
  except ImportError as error:
    raise ValueError(
      f"verifier {name!r}: {error}; run from the module's folder, or set"
      " PYTHONPATH"
    ) from error
  except AttributeError as error:
    raise ValueError(
      f"verifier {name!r}: {module} has no {attribute!r}"
    ) from error


def lookup(table: dict, name: str, kind: str):
  """table[name], or an error that lists the names."""
  if name not in table:
    raise ValueError(f"{kind} {name!r}: not one of {', '.join(table)}")
  return table[name]
