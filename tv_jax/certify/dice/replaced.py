"""Replaces functions that draw random numbers while a program is explored."""

from __future__ import annotations

import contextlib
import decimal
import functools
import importlib
import inspect
import json.encoder
import os
import random
import sys
import traceback
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from tv_jax.certify.dice import arrays
from tv_jax.certify.dice.cells import FINE
from tv_jax.certify.dice.generators import (
  SUBCLASS,
  TWIN,
  Dice,
  OldDice,
  PythonDice,
  Seeded,
  default_rng,
)
from tv_jax.certify.dice.paths import ExploreError, is_users, refuse

_ARRAYS = "array", "asarray", "asanyarray", "ascontiguousarray"
_INHERITED = object()  # stands for a method that a class does not define
_GENERATORS = {
  np.random.Generator: Dice,
  np.random.RandomState: OldDice,
  random.Random: PythonDice,
  random.SystemRandom: PythonDice,
}


def _lines(error: BaseException) -> list[tuple[str, int]]:
  """Lists the files and line numbers of an error's traceback."""
  trace = traceback.walk_tb(error.__traceback__)
  return [(frame.f_code.co_filename, line) for frame, line in trace]


def line_of(error: BaseException) -> str:
  """Returns the last line of the user's code in an error's traceback."""
  lines = [(file, line) for file, line in _lines(error) if is_users(file)]
  return "{}, line {}: ".format(*lines[-1]) if lines else ""


def way_out(error: BaseException) -> str:
  """Returns a remedy, if known, for torch code that cannot run unchanged."""
  if "torch" not in sys.modules:
    return ""
  if any(f"torch{os.sep}_dynamo" in file for file, _ in _lines(error)):
    return " (set TORCHDYNAMO_DISABLE=1 for torch.compile)"
  if "ndarray" in str(error):
    return " (laws are tensors with --arrays=torch)"
  return ""


def _by_name(module, dice) -> dict[str, Any]:
  """Returns stand-ins for a module's public functions and classes, by name."""
  stand_ins = {}
  for name, value in vars(module).items():
    if name.startswith("_") or inspect.ismodule(value):
      continue
    if inspect.isclass(value):
      stand_ins[name] = _GENERATORS.get(value) or type(name, (Seeded,), {})
    elif callable(value):
      stand_ins[name] = functools.partial(_call, dice, name)
  return stand_ins


def _call(dice, name, *arguments, **named):
  return getattr(dice, name)(*arguments, **named)


def _arrays(make: Callable, value, *arguments, **named) -> Any:
  """Makes an array by `numpy.array` or a similar function."""
  dtype = arguments[0] if arguments else named.get("dtype")
  if dtype is object or not arrays.holds(value):
    return make(value, *arguments, **named)
  if np.dtype(dtype) not in FINE:
    refuse(f"rounds random numbers to {np.dtype(dtype).name}")
  return arrays.random(make(value, object))


class _Called:
  """Stands for a function or a class in C, and passes calls to `call`."""

  def __init__(self, real: Any, call: Callable):
    """Keeps the function or class, and what is called in place of it."""
    self._real, self._call = real, call

  def __call__(self, *arguments, **named):
    """Calls it."""
    return self._call(self._real, *arguments, **named)

  def __getattr__(self, name: str):
    """Returns an attribute of the function or class."""
    return getattr(self._real, name)

  def __instancecheck__(self, value):
    """Tells whether a value is an instance of the class."""
    return isinstance(value, self._real)


def _on_lists(function: Callable, *arguments, **named):
  """Calls a function of NumPy; random numbers in a list become an array.

  NumPy would give them to the function as objects, which some fail on.
  """
  arguments = (np.asarray(x) if arrays.holds(x) else x for x in arguments)
  return function(*arguments, **named)


def _of_lists() -> dict[str, _Called]:
  found = {"argmax": np.argmax, "argmin": np.argmin}
  for name, value in vars(np).items():
    if isinstance(value, np.ufunc) and "O" not in "".join(value.types):
      found[name] = value
  return {name: _Called(value, _on_lists) for name, value in found.items()}


def _decimal() -> _Called:
  """Returns a stand-in for Decimal that refuses random numbers."""

  def make(kind: Callable, *arguments, **named):
    if arrays.holds([*arguments, *named.values()]):
      refuse("makes a Decimal of a random number")
    return kind(*arguments, **named)

  made = _Called(decimal.Decimal, make)
  vars(made)["from_float"] = made
  return made


def stand_ins() -> list[tuple[Any, dict[str, Any]]]:
  """Lists pairs of a module and its stand-ins, by name."""
  made = _by_name(np.random, OldDice())
  replaced = [
    (np.random, made | {"default_rng": default_rng}),
    (random, _by_name(random, PythonDice())),
    (np, {x: functools.partial(_arrays, getattr(np, x)) for x in _ARRAYS}),
    (np, _of_lists()),
    # The encoder in C would take a random number for no float.
    (json.encoder, {"c_make_encoder": None}),
    (decimal, {"Decimal": _decimal()}),
  ]
  if "torch" in sys.modules:
    # Torch imports sympy on demand, and sympy needs a real generator.
    importlib.import_module("sympy")
    from tv_jax.certify.dice import torch_functions

    replaced += torch_functions.stand_ins()
  return replaced + _in_users_modules(replaced)


def _in_users_modules(replaced) -> list[tuple[Any, dict]]:
  """Lists stand-ins for generators and functions in the user's modules."""
  by_id = {
    id(getattr(module, name)): stand_in
    for module, names in replaced
    for name, stand_in in names.items()
  }
  # The generators in a state, by their ids; 0 stands for a global generator.
  modules, states = [], {state: {0: ({}, "")} for state in _states().values()}
  for module in [*sys.modules.values()]:
    if not is_users(getattr(module, "__file__", None)):
      continue
    names = {}
    for name, value in vars(module).items():
      if id(value) in by_id:
        names[name] = by_id[id(value)]
      if isinstance(value, (*_GENERATORS,)):
        make = _GENERATORS.get(type(value))
        names[name] = make() if make else SUBCLASS
        if make:
          states.setdefault(_state(value), {})[id(value)] = names, name
    modules.append((module, names))
  for same in states.values():
    for names, name in same.values():
      if len(same) > 1:
        names[name] = TWIN
  return modules


def _state(generator) -> str:
  """Returns a text that identifies a generator's state."""
  if isinstance(generator, random.SystemRandom):
    return str(id(generator))
  if hasattr(generator, "getstate"):
    return str(generator.getstate())
  with np.printoptions(threshold=sys.maxsize):
    return str(generator._bit_generator.state)


def _states() -> dict[str, str]:
  """Returns the states of the global generators."""
  states = {
    "random": _state(random._inst),  # pyright: ignore
    "numpy.random": _state(np.random.mtrand._rand),
  }
  if "torch" in sys.modules:
    default = sys.modules["torch"]._C.default_generator
    states["torch"] = str(default.get_state().numpy().tobytes())
  return states


@contextlib.contextmanager
def replaced() -> Iterator[None]:
  """Installs stand-ins; raises ExploreError if other draws were made."""
  new, before = stand_ins(), _states()
  loaded = "torch" in sys.modules
  old = [
    (x, {name: vars(x).get(name, _INHERITED) for name in names})
    for x, names in new
  ]
  try:
    _set(new)
    yield
    for name, state in _states().items():
      if state != before.get(name, state):
        raise ExploreError(
          f"{name} drew numbers that are not seen: call its functions by its"
          " name, and those that draw uniforms, tokens, or noise that races"
        )
  finally:
    _set(old)
    if not loaded and "torch" in sys.modules:
      raise ExploreError(
        "the function imports torch, what it draws was not seen: import it"
        " before"
      )


def _set(values: list[tuple[Any, dict]]) -> None:
  for module, names in values:
    for name, value in names.items():
      if value is _INHERITED:
        delattr(module, name)
      else:
        setattr(module, name, value)


def takes_rng(function: Callable) -> bool:
  """Tells whether a function takes an argument without a default."""
  try:
    parameters = inspect.signature(function).parameters.values()
  except ValueError:  # a function in C has no signature
    return False
  positional = inspect.Parameter.POSITIONAL_OR_KEYWORD
  return any(x.default is x.empty and x.kind <= positional for x in parameters)
