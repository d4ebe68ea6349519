"""A run's path through its choices."""

from __future__ import annotations

import contextlib
import functools
import itertools
import math
import os
import pathlib
import sys
import sysconfig
from collections.abc import Iterable, Iterator, Sequence
from fractions import Fraction
from typing import Any, NamedTuple, NoReturn

import numpy as np

from tv_jax.certify.dice import ratios
from tv_jax.io.errors import UserError

DIFFERENT = (
  "the function keeps something from run to run, or draws numbers that are not"
  " seen (give it the rng, or draw from random, numpy.random or torch; set"
  " PYTORCH_JIT=0 for TorchScript)"
)
# Parts of the names of files that are not the user's: installed packages and
# this package.
_FOREIGN = (f"{os.sep}site-packages{os.sep}", "<frozen", ".pyx")
_FOREIGN += (f"{os.sep}dist-packages{os.sep}",)  # on Debian
_FOREIGN += (sysconfig.get_path("stdlib") + os.sep,)
_FOREIGN += (str(pathlib.Path(__file__).parents[1]) + os.sep,)


class ExploreError(UserError):
  """The function cannot be explored; the message is a line for the user."""


class EndedError(BaseException):
  """Ends a run from inside, even if the function catches it."""

  def __init__(self, *reason):
    """Records the error on the path, in case the function catches it."""
    super().__init__(*reason)
    self.line = ""  # the user's line in a jitted function
    frame: Any = sys._getframe(1)
    while frame and not is_users(frame.f_code.co_filename):
      frame = frame.f_back
    self.caller = frame and (frame.f_code.co_filename, frame.f_lineno)
    if _current:
      _current[-1].ended = _current[-1].ended or self


class CutError(EndedError):
  """The path is too unlikely or too long to follow."""


class RefusedError(EndedError):
  """The function looks at a random number in a way that cannot be split."""


def refuse(action: str) -> NoReturn:
  """Raises RefusedError; `action` tells how the function uses a number."""
  raise RefusedError(
    f"{action}: a uniform can only be compared with numbers (draw integers by"
    " integers, tokens by choice or searchsorted), and noise only race (argmax"
    " of noise and logits)"
  )


def refuse_methods(kind: type, names: Iterable[str], what: str) -> None:
  """Makes methods of a class refuse; `what` describes its instances."""

  def refused(*_, name: str, **__):
    refuse(f"takes {name.strip('_')}() of {what}")

  for name in names:
    setattr(kind, name, functools.partialmethod(refused, name=name))


class Choice(NamedTuple):
  """A choice on a path; paths with a common beginning share its choices.

  Attributes:
    before: The previous choice, or None.
    index: Index of the chosen outcome.
    weights: Weights of all outcomes.
    at_zero: Whether the outcome needs a uniform of exactly 0: it has no weight.
  """

  before: Choice | None
  index: int
  weights: tuple[Fraction, ...]
  at_zero: bool


class Path:
  """One run's path through the choices."""

  def __init__(self, last: Choice | None):
    """Prepares a run that repeats choices and then makes new choices.

    Args:
      last: The last choice to repeat, or None to begin with a new choice.
    """
    self.planned = []  # the choices to repeat, in reverse order
    while last is not None:
      self.planned.append(last)
      last = last.before
    self.last: Choice | None = None  # the latest choice
    self.weight = Fraction(1)
    self.at_zero = False  # whether a choice has no weight
    self.others: list[tuple[float, Choice]] = []  # weights and ends of branches
    self.bounds: frozenset = frozenset()  # on the noise: see ratios.py
    self.variables = 0  # number of exponential variables
    self.blur = Fraction(0)  # see `choices.blur`
    self.ended: BaseException | None = None
    self.number = 0  # number of the run; a repetition has the next number
    self.draws = 0
    self.work = 0  # grows as the time that integrals take

  def chance(self, new: Iterable[tuple]) -> Fraction:
    """Returns the probability of new bounds on the noise."""
    new = frozenset(new)
    linked = ratios.linked(new, self.bounds)
    self.work += len(linked) ** 3
    if len(linked) > _MOST_BOUNDS:
      raise CutError
    return ratios.chance(linked | new) / ratios.chance(linked)

  def choose(
    self, weights: Sequence[Fraction], at_zero: int | None = None
  ) -> int:
    """Makes a choice.

    Args:
      weights: Weights of the outcomes; their sum is 1.
      at_zero: Index of an outcome of weight 0 that is possible nevertheless. It
        is chosen at most once in a run.

    Returns:
      The index of the chosen outcome.
    """
    weights = tuple(weights)
    if self.planned:
      choice = self.planned.pop()
      if choice.weights != weights:
        raise RefusedError(f"two runs that drew the same differ: {DIFFERENT}")
    else:
      index = max(range(len(weights)), key=weights.__getitem__)
      choice = Choice(self.last, index, weights, False)
      for i, weight in enumerate(weights):
        share = self.weight * (1 if i == at_zero else weight)
        if i == index or share < _LEAST or (i == at_zero and self.at_zero):
          continue
        other = choice._replace(index=i, at_zero=i == at_zero)
        self.others.append((float(share), other))
    self.last = choice
    self.at_zero |= choice.at_zero
    if not choice.at_zero:
      self.weight *= weights[choice.index]
    if self.weight < _LEAST:
      raise CutError
    return choice.index


_LEAST = Fraction(1e-15)  # lighter paths are not followed
_MOST_DRAWS = 100_000  # on one path; a loop without end is cut
_MOST_BOUNDS = 40  # linked by shared noise; more take minutes to integrate
_current: list[Path] = []
_numbers = itertools.count()


@contextlib.contextmanager
def followed(path: Path) -> Iterator[None]:
  """Makes `path` the path of the current run."""
  path.number = next(_numbers)
  _current.append(path)
  try:
    yield
  finally:
    _current.pop()


def current() -> Path:
  """Returns the path of the current run; each draw asks for it."""
  if not _current:
    raise ExploreError(f"a number is drawn after its run: {DIFFERENT}")
  path = _current[-1]
  path.draws += 1
  if path.draws > _MOST_DRAWS:
    raise CutError
  return path


def is_running() -> bool:
  """Tells whether a function is being run."""
  return bool(_current)


def is_users(file: str | None) -> bool:
  """Tells whether a file is the user's."""
  return bool(file) and not any(part in file for part in _FOREIGN)


def exact(value) -> Fraction | float | None:
  """Returns a number as a rational; infinities and NaN stay floats.

  Returns None for other types.
  """
  number: Any = value
  if getattr(value, "shape", None) in ((), (1,)) and not (
    isinstance(value, np.ndarray) and value.ndim
  ):
    number = value.item()
  kind = type(number)  # `isinstance` takes a random number for a float
  if issubclass(kind, float) and not math.isfinite(number):
    return number
  return Fraction(number) if issubclass(kind, int | float | Fraction) else None


def rational(value) -> Fraction:
  """Returns a finite number as a rational."""
  number = exact(value)
  if not isinstance(number, Fraction):
    raise ValueError(f"{value} is no finite number")
  return number
