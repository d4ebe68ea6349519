"""What draws random numbers in a function that is explored.

`Dice` stands for NumPy's Generator and for its old functions, `PythonDice` for
Python's `random`. While a function runs they are in the place of these modules'
own functions; torch has torches.py.
"""

from __future__ import annotations

import contextlib
import functools
import inspect
import math
import pathlib
import random
import sys
from collections.abc import Callable, Iterator
from fractions import Fraction
from typing import Any, NoReturn

import numpy as np

from tv_jax.certify.dice import cells, exploring
from tv_jax.certify.dice.cells import Uniform
from tv_jax.certify.dice.exploring import ExploreError, RefusedError, rational
from tv_jax.certify.dice.noise import Noise

# Attributes of generators that make their numbers come again.
_SEEDING = ("seed", "getstate", "setstate", "get_state", "set_state", "spawn")
_SEEDING += ("bit_generator", "get_bit_generator", "set_bit_generator")
# More numbers, all alike, are not tried.
_MOST = 100_000


def draw(weights) -> int:
  """Draws an index by weights, which need not sum to 1."""
  found = [rational(x) for x in weights]
  if not found or min(found) < 0:
    raise ValueError(f"probabilities are {[*weights]}: none may be negative")
  total = sum(found, Fraction(0))
  if not total:
    raise ValueError("all probabilities are 0")
  return exploring.way().take([x / total for x in found])


def draw_from(count: int) -> int:
  """Draws one of 0 .. count - 1, all alike."""
  if count > _MOST:
    raise RefusedError(
      f"draws one of {count} numbers: all would be tried, and more than {_MOST}"
      " are too many (a uniform is followed without end, and a generator needs"
      " no drawn seed)"
    )
  return draw([1] * count)


def checked(law) -> list:
  """Returns a law as NumPy takes it: it must sum to 1 up to rounding."""
  law = np.asarray(law)
  kinds = {np.float64, law.dtype.type} & {np.float64, np.float32, np.float16}
  allowed = max(np.finfo(kind).eps ** 0.5 for kind in kinds)
  law = law.ravel().tolist()
  if abs(sum(law) - 1) > allowed:
    raise ValueError("probabilities do not sum to 1")
  return law


def without_replacement(weights, count: int) -> list[int]:
  """Draws several different indices, one after the other."""
  left, found = [*weights], []
  for _ in range(count):
    if not any(left):
      raise ValueError("Fewer non-zero entries in p than size")
    found.append(draw(left))
    left[found[-1]] = 0
  return found


def filled(shape, make: Callable[[], int], dtype=int):
  """Returns one number, or an array of this shape, of NumPy's or Python's."""
  kind = dtype if dtype in (bool, int) else np.dtype(dtype).type
  if shape is None:
    return kind(make())
  shape = tuple(np.atleast_1d(shape)) if shape != () else ()
  found = np.empty(shape, dtype)
  for at in np.ndindex(found.shape):
    found[at] = make()
  return found


def _size(size, *parameters):
  """Returns how many are drawn: without a size, as parameters are shaped."""
  shape = np.broadcast_shapes(*map(np.shape, parameters))
  return shape or None if size is None else size


def refuse_seed(how: str) -> NoReturn:
  """Refuses what makes numbers come again: here they would be others."""
  raise RefusedError(
    f"{how}: its numbers can come again, in this run or in each, which is not"
    " followed (draw from the rng that is given, or from a generator without a"
    " seed)"
  )


class Seeded:
  """Stands for classes of generators, none of which may be made."""

  def __new__(cls, *_, **__):
    """Refuses."""
    refuse_seed(f"makes a {cls.__name__}")


class Twin:
  """Stands for a generator that is in another's state."""

  def __getattr__(self, name: str):
    """Refuses."""
    refuse_seed(f"draws by {name}() from a generator in another's state")


class _Refusing:
  """Refuses what is not known, by name."""

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
    if name in _SEEDING:
      refuse_seed(f"seeds or copies a generator ({name})")
    raise RefusedError(
      f"draws by {name}(), which cannot be explored: uniforms, laws of tokens"
      " and races of exponential or Gumbel noise can"
    )


class Dice(_Refusing):
  """Stands for `numpy.random.Generator`."""

  def random(self, size=None, dtype=None, out=None):
    """Draws uniforms."""
    del dtype
    if out is not None:
      cells.refuse("fills an array with uniforms (out=)")
    return cells.array(size, Uniform)

  def uniform(self, low=0.0, high=1.0, size=None):
    """Draws uniforms between two numbers."""
    found = self.random(_size(size, low, high))
    return found * np.subtract(high, low) + low

  def integers(
    self, low, high=None, size=None, dtype: Any = np.int64, endpoint=False
  ):
    """Draws integers."""
    low, high = (0, low) if high is None else (low, high)
    if np.ndim(low) or np.ndim(high):
      cells.refuse("draws integers below each of several numbers")
    low, count = int(low), int(high) - int(low) + bool(endpoint)
    for end in (low, low + count - 1):
      if count > 0 and np.array(end).astype(dtype) != end:
        raise ValueError(f"{end} is out of bounds for {np.dtype(dtype)}")
    return filled(size, lambda: low + draw_from(count), dtype)

  def choice(self, a, size=None, replace=True, p=None, axis=0, shuffle=True):
    """Draws entries."""
    if not shuffle and not replace and p is None and size is not None:
      cells.refuse("draws in an order that is not random (shuffle=False)")
    if axis:
      cells.refuse("draws along another axis than the first")
    pool = np.arange(a) if np.ndim(a) == 0 else np.asarray(a)
    law = [1] * len(pool) if p is None else checked(p)
    if len(law) != len(pool):
      raise ValueError("'a' and 'p' must have same size")
    if size is None and np.ndim(a) == 0:
      return draw(law)
    if replace or size is None:
      return pool[filled(size, lambda: draw(law))]
    count = math.prod(np.atleast_1d(size).tolist())
    found = np.array(without_replacement(law, count), int)
    return pool[found.reshape(size)]

  def multinomial(self, n, pvals, size=None):
    """Draws counts; as in NumPy the last entry has what the others leave."""
    law = [rational(x) for x in np.asarray(pvals).tolist()]
    law[-1] = max(1 - sum(law[:-1], Fraction(0)), Fraction(0))
    shape = () if size is None else tuple(np.atleast_1d(size))
    found = np.zeros((*shape, len(law)), int)
    for at in np.ndindex(shape):
      for _ in range(n):
        found[at][draw(law)] += 1
    return found

  def binomial(self, n, p, size=None):
    """Draws how many of n happen."""
    share = rational(p)
    return filled(
      size, lambda: sum(draw([1 - share, share]) for _ in range(int(n)))
    )

  def exponential(self, scale=1.0, size=None):
    """Draws exponential noise."""
    return cells.array(_size(size, scale), Noise) * scale

  def standard_exponential(self, size=None, dtype=None, method=None, out=None):
    """Draws exponential noise."""
    del dtype, method
    if out is not None:
      cells.refuse("fills an array with noise (out=)")
    return cells.array(size, Noise)

  def gumbel(self, loc=0.0, scale=1.0, size=None):
    """Draws Gumbel noise."""
    size = _size(size, loc, scale)
    return cells.array(size, lambda: -Noise().log()) * scale + loc

  def permutation(self, x, axis=0):
    """Draws an order."""
    pool = np.arange(x) if np.ndim(x) == 0 else np.asarray(x)
    if axis:
      cells.refuse("draws along another axis than the first")
    return pool[without_replacement([1] * len(pool), len(pool))]

  def shuffle(self, x, axis=0):
    """Puts entries into a drawn order."""
    x[:] = (
      self.permutation(np.asarray(x), axis)
      if isinstance(x, np.ndarray)
      else [x[i] for i in without_replacement([1] * len(x), len(x))]
    )


class OldDice(Dice):
  """Stands for `numpy.random`'s functions, and for its RandomState."""

  def rand(self, *shape):
    """Draws uniforms."""
    return self.random(shape or None)

  def random_sample(self, size=None):
    """Draws uniforms."""
    return self.random(size)

  ranf = sample = random_sample

  def randint(self, low, high=None, size=None, dtype: Any = int):
    """Draws integers."""
    return self.integers(low, high, size, dtype)


class PythonDice(_Refusing):
  """Stands for Python's `random`."""

  def random(self):
    """Draws a uniform."""
    return Uniform()

  def uniform(self, a, b):
    """Draws a uniform between two numbers."""
    return Uniform() * (b - a) + a

  def randrange(self, start, stop=None, step=1):
    """Draws from a range."""
    pool = range(start) if stop is None else range(start, stop, step)
    return pool[draw_from(len(pool))]

  def randint(self, a, b):
    """Draws an integer, both ends among them."""
    return a + draw_from(b - a + 1)

  def getrandbits(self, k):
    """Draws an integer of k bits."""
    return draw_from(1 << k)

  def choice(self, seq):
    """Draws an entry."""
    return seq[draw_from(len(seq))]

  def choices(self, population, weights=None, *, cum_weights=None, k=1):
    """Draws entries with replacement."""
    if cum_weights is not None:
      weights = np.diff([0, *cum_weights]).tolist()
    weights = [1] * len(population) if weights is None else weights
    return [population[draw(weights)] for _ in range(k)]

  def sample(self, population, k, *, counts=None):
    """Draws entries without replacement."""
    if counts is not None:
      cells.refuse("draws by counts")
    found = without_replacement([1] * len(population), k)
    return [population[i] for i in found]

  def shuffle(self, x):
    """Puts entries into a drawn order."""
    x[:] = self.sample(x, len(x))

  def expovariate(self, lambd=1.0):
    """Draws exponential noise."""
    return Noise() / lambd


def _standing(module, dice, made: dict[str, Any]) -> dict[str, Any]:
  """Returns what stands for each function of a module that draws."""
  found = {}
  for name, value in vars(module).items():
    if name.startswith("_") or inspect.ismodule(value):
      continue
    if name in made:
      found[name] = made[name]
    elif inspect.isclass(value):
      found[name] = type(name, (Seeded,), {})
    elif callable(value):
      found[name] = functools.partial(_call, dice, name)
  return found


def _call(dice, name, *arguments, **named):
  return getattr(dice, name)(*arguments, **named)


def _in_own_modules(program, known: list[tuple]) -> list[tuple]:
  """Returns stand-ins for what a program's own modules hold by other names.

  Its own modules are those in the folder of its file, and below.

  Args:
    program: A function.
    known: (module, {name: what stands for it}) of those that draw.
  """
  try:
    folder = pathlib.Path(inspect.getfile(_innermost(program))).parent
  except TypeError:  # it has no file
    return []
  stands = {
    id(getattr(module, name)): value
    for module, new in known
    for name, value in new.items()
  }
  found, generators = [], {}
  for module in [*sys.modules.values()]:
    if not _is_own(getattr(module, "__file__", None) or "/", folder):
      continue
    new = {}
    for name, value in vars(module).items():
      if id(value) in stands:
        new[name] = stands[id(value)]
      for kind, make in _KINDS.items():
        if isinstance(value, kind):
          new[name] = make()
          generators.setdefault(_state_of(value), {})[id(value)] = new, name
    if new:
      found.append((module, new))
  for state in (_state_of(random), _state_of(np.random.mtrand._rand)):
    generators.setdefault(state, {})[0] = {}, ""
  for same in generators.values():
    for new, name in same.values():
      if len(same) > 1:
        new[name] = Twin()
  return found


_KINDS = {
  np.random.Generator: Dice,
  np.random.RandomState: OldDice,
  random.Random: PythonDice,
}


def _state_of(generator):
  """Returns what a generator's next numbers are made from."""
  if isinstance(generator, random.SystemRandom):
    return id(generator)
  if hasattr(generator, "getstate"):
    return generator.getstate()
  old = isinstance(generator, np.random.RandomState)
  bits = generator._bit_generator if old else generator.bit_generator
  return exploring.plain(bits.state)


# What certifies draws laws, in whichever folder it is.
_HERE = pathlib.Path(__file__).parents[1]


@functools.lru_cache(maxsize=65_536)
def _is_own(file: str, folder: pathlib.Path) -> bool:
  """Returns whether a module's file is in a folder, and is not installed.

  Thousands of modules are asked for each law, and their answers stay.
  """
  path = pathlib.Path(file)
  installed = "site-packages" in path.parts or path.is_relative_to(_HERE)
  return path.is_relative_to(folder) and not installed


def _innermost(program):
  """Returns the function that a program wraps."""
  while isinstance(program, functools.partial):
    program = program.func
  program = inspect.unwrap(program)
  found = hasattr(program, "__code__") or not callable(program)
  return program if found else type(program).__call__


@contextlib.contextmanager
def replaced(program: Callable) -> Iterator[Callable]:
  """Puts stand-ins in the place of what draws random numbers.

  Args:
    program: In whose modules they are found by other names as well.

  Yields:
    What calls a function, with an rng if it takes one.
  """
  rng, old, python = Dice(), OldDice(), PythonDice()
  both = [
    (
      np.random,
      _standing(
        np.random,
        old,
        {
          "default_rng": lambda seed=None: (
            seed if isinstance(seed, Dice) else Dice(seed)
          ),
          "Generator": Dice,
          "RandomState": OldDice,
        },
      ),
    ),
    (
      random,
      _standing(
        random,
        python,
        dict.fromkeys(("Random", "SystemRandom"), PythonDice),
      ),
    ),
  ]
  if "torch" in sys.modules:
    from tv_jax.certify.dice import torches

    both += torches.standing()
  both += _in_own_modules(program, both)
  kept = [(m, {n: vars(m).get(n) for n in new}) for m, new in both]
  before = _states()
  try:
    for module, new in both:
      for name, value in new.items():
        setattr(module, name, value)
    yield (
      lambda function: function(rng) if takes_rng(function) else function()
    )
    for name, state in _states().items():
      if not np.array_equal(state, before.get(name, state)):
        raise ExploreError(
          f"{name} drew numbers that are not seen: call its functions by its"
          " name, and those that draw uniforms, tokens, or noise that races"
        )
  finally:
    for module, own in kept:
      for name, value in own.items():
        if value is None:  # it is inherited
          delattr(module, name)
        else:
          setattr(module, name, value)


# Taken before stand-ins are put in their place.
_STATES = {
  "random": lambda state=random.getstate: state()[1],
  "numpy.random": lambda state=np.random.get_state: [*state()[1], state()[2]],
}


def _states() -> dict:
  """Returns the states of the generators that all share."""
  found = {name: state() for name, state in _STATES.items()}
  if "torch" in sys.modules:
    found["torch"] = sys.modules["torch"]._C.default_generator.get_state()
  return found


@functools.lru_cache(maxsize=8)
def takes_rng(function: Callable) -> bool:
  """Tells whether a function takes an rng: one argument without a default."""
  try:
    parameters = inspect.signature(function).parameters.values()
  except (TypeError, ValueError):
    return False
  needed = [
    one
    for one in parameters
    if one.default is one.empty
    and one.kind in (one.POSITIONAL_ONLY, one.POSITIONAL_OR_KEYWORD)
  ]
  if len(needed) > 1:
    raise ExploreError(
      f"the function takes {', '.join(one.name for one in needed)}: give one"
      " that takes an rng alone, or nothing"
    )
  return bool(needed)
