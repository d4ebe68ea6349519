"""NumPy arrays of random numbers.

An `Array` holds cells and numbers as objects, and a program takes it for an
array of floats. NumPy gives each of its functions on an `Array` or a cell to
this module, which follows those in the table of operations and those that move
entries, and refuses all others.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from tv_jax.certify.dice import races
from tv_jax.certify.dice.cells import FINE, Cell
from tv_jax.certify.dice.operations import (
  ANSWERS,
  OPERATIONS,
  is_random,
  searched,
)
from tv_jax.certify.dice.paths import refuse

# Functions that move the entries of arrays, or rank them.
_FUNCTIONS = ("reshape", "ravel", "squeeze", "expand_dims", "transpose", "copy")
_FUNCTIONS += ("swapaxes", "moveaxis", "broadcast_to", "broadcast_arrays")
_FUNCTIONS += ("where", "take", "take_along_axis", "atleast_1d", "atleast_2d")
_FUNCTIONS += ("shape", "ndim", "size", "zeros_like", "ones_like", "argsort")
# Functions that are methods, and the names of the methods.
_METHODS = {x: x for x in ("argmax", "argmin", "max", "min", "clip")}
_METHODS |= {"amax": "max", "amin": "min"}


def _plain(value):
  """Returns a value with `Array`s as NumPy's own arrays."""
  if isinstance(value, Array):
    return value.view(np.ndarray)
  if type(value) is Cell:
    array = np.empty((), object)
    array[()] = value.as_kind(np.float64)
    return array
  if type(value) in (list, tuple):
    return type(value)(map(_plain, value))
  if getattr(value, "dtype", None) == np.float16:
    refuse("computes with random numbers and float16, which rounds them")
  return value


def random(value) -> Any:
  """Returns a result of NumPy's, with arrays of random numbers as `Array`s."""
  if type(value) in (list, tuple):
    return type(value)(map(random, value))
  if not isinstance(value, np.ndarray) or value.dtype != object:
    return value
  return value.view(Array) if is_random(value) else value.astype(float)


def _called(function: Callable, name: str, arguments, named) -> Any:
  """Calls a function of NumPy on the entries of arrays.

  Errors that NumPy raises for floats too are raised; others are refused.
  """
  named = {key: _plain(x) for key, x in named.items()}
  try:
    return function(*_plain(arguments), **named)
  except (TypeError, AttributeError) as error:
    refuse(f"gives random numbers to np.{name} ({error})")


class Array(np.ndarray):
  """An array of random numbers; see the module."""

  def __array_ufunc__(self, ufunc, method, *inputs, out=(), **named):
    """Executes one of NumPy's functions of entries, or refuses it."""
    name = ufunc.__name__
    if name not in OPERATIONS:
      refuse(f"takes {name}() of a random number")
    kinds = {_plain(x).dtype.kind for x in out if x is not None}
    if kinds - {"O", "b"}:
      refuse(f"puts np.{name} of random numbers into an array of numbers")
    named = named | {"out": out} if out else named
    result = _called(getattr(OPERATIONS[name], method), name, inputs, named)
    if out and out[0] is not None:
      return out[0]
    if name in ANSWERS:
      return np.asarray(result, bool)[()]
    return random(result)

  def __array_function__(self, function, types, arguments, named):
    """Executes another function of NumPy, or refuses it."""
    name = function.__name__
    if name in _METHODS:
      array, *rest = arguments
      array = np.array(array, object).view(Array)
      return getattr(array, _METHODS[name])(*rest, **named)
    if name == "searchsorted":
      return _searched(*arguments, **named)
    if name not in _FUNCTIONS:
      refuse(f"gives random numbers to np.{name}")
    return random(_called(function, name, arguments, named))

  @property
  def __jax_array__(self):
    """Refuses; JAX looks for this attribute."""
    return refuse("gives NumPy's random numbers to JAX")

  @property
  def dtype(self) -> np.dtype:
    """The type of an array of floats."""
    return np.dtype(float)

  def argmax(self, axis=None, out=None, *, keepdims=False):
    """Returns the index of the largest entry."""
    return self._raced(races.winner, axis, out, keepdims)

  def argmin(self, axis=None, out=None, *, keepdims=False):
    """Returns the index of the smallest entry."""
    return self._raced(races.loser, axis, out, keepdims)

  def _raced(self, race: Callable, axis, out, keepdims):
    if out is not None:
      refuse("writes the winner of a race into an array")
    entries = self.view(np.ndarray)
    if axis is None:
      entries = entries.ravel()
    places = races.best(race, entries, axis or 0)[1]
    if axis is None and keepdims:
      return places.reshape((1,) * self.ndim)
    return places if keepdims else places.squeeze(axis or 0)[()]

  def view(self, dtype=None, *_, **__):
    """Returns a view; refuses another type."""
    if dtype is not None and dtype not in (np.ndarray, Array):
      refuse("reads the bits of random numbers")
    return super().view(*() if dtype is None else (dtype,))

  def max(self, axis=None, out=None, *, keepdims=False):
    """Returns the largest entry."""
    return np.maximum.reduce(self, axis=axis, out=out, keepdims=keepdims)

  def min(self, axis=None, out=None, *, keepdims=False):
    """Returns the smallest entry."""
    return np.minimum.reduce(self, axis=axis, out=out, keepdims=keepdims)

  def clip(self, min=None, max=None, out=None):
    """Clamps the entries."""
    entries = random(OPERATIONS["clip"](*map(_plain, (self, min, max))))
    if out is not None:
      out[...] = entries
    return entries if out is None else out

  def tolist(self):
    """Returns floats of Python."""
    return _as_python(super().tolist())

  def item(self, *index):
    """Returns a float of Python."""
    return _as_python(super().item(*index))

  def astype(self, dtype, *_, **__):
    """Returns a copy; refuses to round."""
    if np.dtype(dtype) not in FINE:
      refuse(f"rounds random numbers to {np.dtype(dtype).name}")
    return self.copy()


def _as_python(value):
  if isinstance(value, list):
    return [*map(_as_python, value)]
  return value.as_kind(float) if type(value) is Cell else value


def _searched(a, v, side="left", sorter=None):
  """Stands for np.searchsorted."""
  if sorter is not None:
    refuse("searches an array by a sorter")
  return searched(np.asarray(_plain(a)), _plain(v), side == "right")[()]


Cell.__array_ufunc__ = Array.__array_ufunc__  # pyright: ignore
Cell.__array_function__ = Array.__array_function__  # pyright: ignore


def holds(value, *kinds: type) -> bool:
  """Tells whether nested lists hold a random number, or an array of them.

  Args:
    value: The lists.
    *kinds: Further types of arrays of random numbers.
  """
  if isinstance(value, list | tuple):
    return any(holds(x, *kinds) for x in value)
  return isinstance(value, (Array, *kinds)) or type(value) is Cell


def _refusing(name: str) -> property:
  return property(lambda _: refuse(f"takes {name} of random numbers"))


_KEPT = ("shape", "ndim", "size", "T", "itemsize", "nbytes", "reshape", "ravel")
_KEPT += ("flatten", "squeeze", "transpose", "swapaxes", "copy", "take", "put")
_KEPT += ("fill", "diagonal", "argsort", "base")
_KEPT += ("strides", "flags", "setflags")
for _name in dir(np.ndarray):
  if not _name.startswith("_") and _name not in (*vars(Array), *_KEPT):
    setattr(Array, _name, _refusing(_name))
