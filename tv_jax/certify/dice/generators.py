"""Stand-ins for the random generators of NumPy and Python."""

from __future__ import annotations

import functools
import inspect
import itertools
import math
from collections.abc import Callable, Sequence
from fractions import Fraction
from typing import Any, NoReturn

import numpy as np

from tv_jax.certify.dice.arrays import Array
from tv_jax.certify.dice.cells import FINE, exponential, uniform
from tv_jax.certify.dice.choices import draw, draw_below, draw_distinct
from tv_jax.certify.dice.paths import RefusedError, rational, refuse


def filled(shape, make: Callable, dtype: Any = object) -> Any:
  """Returns a number if `shape` is None, or an array of numbers."""
  if shape is None:
    return make() if dtype is object else dtype(make())
  array = np.empty(tuple(np.atleast_1d(shape)) if shape != () else (), dtype)
  for index in np.ndindex(array.shape):
    array[index] = make()
  return array.view(Array) if dtype is object else array


def _floats(shape, make: Callable) -> Any:
  """Returns random numbers: of Python's type without a shape, as NumPy does."""
  kind = float if shape is None else np.float64
  return filled(shape, functools.partial(make, kind))


def _scale(parameter) -> float:
  """Returns a scale parameter; as in NumPy, none is negative."""
  number = _number(parameter)
  if number < 0:
    raise ValueError("scale < 0")
  return number


def _number(parameter) -> float:
  """Returns a scale or location parameter; refuses an array."""
  if np.ndim(parameter):
    refuse("draws by an array of parameters (compute with what is drawn)")
  return float(parameter)


def _law(p) -> Sequence[float]:
  """Returns probabilities; as in NumPy, their sum must be 1 up to rounding."""
  p = np.asarray(p)
  eps = np.finfo(p.dtype if p.dtype.kind == "f" else float).eps
  if abs(sum(p.tolist()) - 1) > max(eps, np.finfo(float).eps) ** 0.5:
    raise ValueError("probabilities do not sum to 1")
  return p.tolist()


_AGAIN = (
  ": its numbers can come again, in this run or in each, which is not followed"
  " (draw from the rng that is given, or from a generator without a seed)"
)


def refuse_seed(action: str) -> NoReturn:
  """Refuses seeds and copies of generators: repeated draws are not followed."""
  raise RefusedError(f"{action}{_AGAIN}")


class Seeded:
  """Stands for a class that a program may not instantiate."""

  def __new__(cls, *_, **__):
    """Refuses."""
    refuse_seed(f"makes a {cls.__name__}")


class Refusing:
  """Stands for a generator, and refuses to draw."""

  def __init__(self, reason: str):
    """Keeps the reason for the message."""
    self._reason = reason

  def __getattr__(self, name: str):
    """Refuses."""
    raise RefusedError(f"draws by {name}() {self._reason}")


# Two generators in one state draw the same numbers.
TWIN = Refusing(f"from a generator in another's state{_AGAIN}")
SUBCLASS = Refusing("of a subclass of a generator, which is not followed")


class _Generator:
  """Refuses seeds, copies and unknown methods."""

  def __init__(self, *seeds, **named):
    """Refuses a seed."""
    if any(x is not None for x in (*seeds, *named.values())):
      refuse_seed("seeds a generator")

  def __reduce_ex__(self, _):
    """Refuses."""
    refuse_seed("copies or saves a generator")

  def __hash__(self):
    """Refuses."""
    refuse_seed("keeps what it drew by its generator")

  def __getattr__(self, name: str):
    """Refuses."""
    if name.startswith("__"):
      raise AttributeError(name)
    raise RefusedError(
      f"uses {name}() of a generator, which is not followed: draw by random,"
      " uniform, choice, choices, integers, multinomial, exponential or gumbel"
      " (what seeds or copies a generator makes numbers that can come again)"
    )


class Dice(_Generator):
  """Stands for `numpy.random.Generator`."""

  def random(self, size=None, dtype=None):
    """Draws uniforms."""
    if np.dtype(dtype or float) not in FINE:
      raise TypeError(f"Unsupported dtype {dtype!r} for random")
    return _floats(size, uniform)

  def uniform(self, low=0.0, high=1.0, size=None):
    """Draws uniforms between two numbers."""
    low, high = _number(low), _number(high)
    return self.random(size) * (high - low) + low

  def integers(self, low, high=None, size=None):
    """Draws integers."""
    low, high = (0, low) if high is None else (low, high)
    low, count = int(low), int(high) - int(low)
    return filled(size, lambda: low + draw_below(count), np.int64)

  def choice(self, a, size=None, replace=True, p=None):
    """Draws entries."""
    pool = np.arange(a) if np.ndim(a) == 0 else np.asarray(a)
    law = [1] * len(pool) if p is None else _law(p)
    if len(law) != len(pool):
      raise ValueError("'a' and 'p' must have same size")
    if size is None:
      index = draw(law)
      return index if np.ndim(a) == 0 else pool[index]
    if replace:
      return pool[filled(size, lambda: draw(law), int)]
    count = math.prod(np.atleast_1d(size).tolist())
    return pool[np.array(draw_distinct(law, count), int).reshape(size)]

  def multinomial(self, n, pvals, size=None):
    """Draws counts; as in NumPy, the last probability is the remainder."""
    given = np.asarray(pvals, float)
    if not ((given >= 0) & (given <= 1)).all():
      raise ValueError("pvals < 0, pvals > 1 or pvals contains NaNs")
    if given[:-1].sum() > 1 + 1e-12:
      raise ValueError("sum(pvals[:-1]) > 1.0")
    law = [*map(rational, given.tolist())]
    law[-1] = max(1 - sum(law[:-1], Fraction(0)), Fraction(0))
    shape = () if size is None else tuple(np.atleast_1d(size))
    counts = np.zeros((*shape, len(law)), int)
    for index in np.ndindex(shape):
      for _ in range(n):
        counts[index][draw(law)] += 1
    return counts

  def exponential(self, scale=1.0, size=None):
    """Draws exponential noise."""
    return _floats(size, exponential) * _scale(scale)

  def gumbel(self, loc=0.0, scale=1.0, size=None):
    """Draws Gumbel noise."""
    noise = _floats(size, lambda kind: -exponential(kind).log())
    return noise * _scale(scale) + _number(loc)


class OldDice(Dice):
  """Stands for `numpy.random`'s functions, and for its RandomState."""

  def rand(self, *shape):
    """Draws uniforms."""
    return self.random(shape or None)


def default_rng(seed=None) -> Dice:
  """Makes a generator; as in NumPy, a given generator is returned."""
  return seed if isinstance(seed, Dice) else Dice(seed)


class PythonDice(_Generator):
  """Stands for Python's `random`."""

  def random(self):
    """Draws a uniform."""
    return uniform(float)

  def uniform(self, a, b):
    """Draws a uniform between two numbers."""
    return uniform(float) * (b - a) + a

  def choice(self, seq):
    """Draws an entry."""
    if not len(seq):
      raise IndexError("Cannot choose from an empty sequence")
    return seq[draw_below(len(seq))]

  def choices(self, population, weights=None, *, cum_weights=None, k=1):
    """Draws entries with replacement."""
    if cum_weights is not None:
      sums = [Fraction(0), *map(rational, cum_weights)]
      weights = [after - before for before, after in itertools.pairwise(sums)]
    weights = [1] * len(population) if weights is None else [*weights]
    if not population:
      raise IndexError("list index out of range")
    if len(weights) != len(population):
      raise ValueError("The number of weights does not match the population")
    if any(x < 0 for x in weights) and sum(weights) > 0:
      raise RefusedError(
        "draws by choices() with a negative weight, which Python does not check"
      )
    return [population[draw(weights)] for _ in range(k)]


def _refusing(name: str, method: Callable) -> Callable:
  """Makes a method refuse unknown arguments."""
  signature = inspect.signature(method)

  @functools.wraps(method)
  def called(*arguments, **named):
    try:
      return method(*arguments, **named)
    except TypeError:
      try:
        signature.bind(*arguments, **named)
      except TypeError as error:  # the program might catch a TypeError
        raise RefusedError(f"draws by {name}() otherwise: {error}") from None
      raise

  return called


for _kind in (Dice, OldDice, PythonDice):
  for _name, _method in [*vars(_kind).items()]:
    if not _name.startswith("_"):
      setattr(_kind, _name, _refusing(_name, _method))
