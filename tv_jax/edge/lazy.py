"""Names of a package that are imported when they are first asked for.

jax takes a second to import. A command that refuses a flag, is interrupted at
once, or only reads a run's folder does without.
"""

import importlib
import sys
from collections.abc import Callable, Mapping


def names(package: str, places: Mapping[str, str]) -> Callable:
  """Returns a package's `__getattr__`.

  Args:
    package: Its name.
    places: The module of each name, below tv_jax; or "module:name" for
      something that is called otherwise there.
  """

  def get(name: str):
    if name not in places:
      raise AttributeError(f"module {package!r} has no attribute {name!r}")
    module, _, own = places[name].partition(":")
    found = getattr(importlib.import_module(f"tv_jax.{module}"), own or name)
    setattr(sys.modules[package], name, found)
    return found

  return get
