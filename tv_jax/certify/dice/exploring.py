"""The exact law of what a Python function returns: every outcome is tried.

A function that draws random numbers is run again and again, once for each way
through its choices. Where it compares a uniform with a number, both sides are
tried, each with its length as weight; where it draws from a law, each token of
positive chance. Numbers that decide a choice are taken as the rationals that
they are, so that weights are exact.
"""

from __future__ import annotations

import dataclasses
import heapq
import itertools
import sys
import sysconfig
import threading
import time
from collections.abc import Callable, Hashable, Sequence
from fractions import Fraction
from typing import Any, NamedTuple

import numpy as np

from tv_jax.certify.dice import alarm
from tv_jax.edge import names
from tv_jax.edge.reading import shown

# A program that fails on less likely ways fails by rounding: these are left.
ROUNDING = Fraction(1, 10**12)


# So many runs are made twice, to see whether they are the same.
_REPEATED = 64


class ExploreError(ValueError):
  """What cannot be explored, and where: one line for the user."""

  def __init__(self, *told):
    """Ends the run that goes on, even if the function catches it."""
    super().__init__(*told)
    _end(self)


class Interrupt(BaseException):
  """Ends a run from inside; `except Exception` does not stop it."""

  def __init__(self, *told):
    """Ends the run that goes on, even if the function catches it."""
    super().__init__(*told)
    _end(self)


class CutError(Interrupt):
  """The way that is left is too unlikely to follow."""


class RefusedError(Interrupt):
  """The function looks at a random number in a way that cannot be split."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class Law:
  """What a function returns, and how likely.

  Attributes:
    chances: By what is returned, lists and arrays as tuples.
    edges: What is returned only where a uniform is exactly 0, which has no
      weight, but is a number that generators give.
    unexplored: The weight of the ways that were not followed to their end, or
      in which the function fails (by rounding, or it is an error).
    runs: How often the function was run.
  """

  chances: dict[Any, Fraction]
  edges: tuple
  unexplored: Fraction
  runs: int

  def distance(self, other: Law | dict[Any, Fraction]) -> float:
    """Returns the total variation from a law; unexplored ways count fully."""
    unexplored = self.unexplored
    if isinstance(other, Law):
      other, unexplored = other.chances, unexplored + other.unexplored
    keys = {*self.chances, *other}
    apart = sum(
      abs(Fraction(self.chances.get(k, 0)) - Fraction(other.get(k, 0)))
      for k in keys
    )
    return float((apart + unexplored) / 2)

  def __repr__(self) -> str:
    """Returns a line for each outcome, the likeliest first."""
    ranked = sorted(self.chances.items(), key=lambda one: -one[1])
    lines = [f"{float(chance):.9f}  {value}" for value, chance in ranked]
    lines += [f"{'at u = 0':>11}  {value}" for value in self.edges]
    if self.unexplored:
      lines.append(f"{float(self.unexplored):.9f}  not explored")
    return "\n".join([*lines, f"{self.runs} runs"])


class Choice(NamedTuple):
  """One choice of a way; ways that begin alike share the choices before.

  Attributes:
    before: The choice before; None: this is the first.
    index: Of what was taken.
    weights: Of all that could be.
    edge: Whether what was taken has weight 0.
  """

  before: Choice | None
  index: int
  weights: tuple[Fraction, ...]
  edge: bool


class Way:
  """One run's way through the choices."""

  def __init__(self, last: Choice | None, least: Fraction):
    """Prepares to go to a choice, and on from there.

    Args:
      last: Of those that are to be taken; None: there are none.
      least: Ways of less weight are not followed.
    """
    self.told = []  # the last comes first
    while last is not None:
      self.told.append(last)
      last = last.before
    self.last: Choice | None = None  # that was taken
    self.weight = Fraction(1)
    self.edge = False
    self.left: list[tuple[float, Choice]] = []  # other ways
    self.bounds: frozenset = frozenset()  # on the noise: see bounds.py
    self.variables = 0  # of the noise
    self.ended: BaseException | None = None  # why, if not by its return
    self._least = least

  def take(self, weights: Sequence[Fraction], edge: int | None = None) -> int:
    """Takes one of several ways on.

    Args:
      weights: Of each; their sum is 1.
      edge: The index of one that has weight 0 and is possible all the same; it
        is followed once in a run at most.

    Returns:
      Which.
    """
    weights = tuple(weights)
    if self.told:
      choice = self.told.pop()
      if choice.weights != weights:
        raise ExploreError(
          "two runs that drew the same differ: the function keeps something"
          " from run to run, or draws numbers that are not seen (give it the"
          " rng, or draw from random, numpy.random or torch)"
        )
    else:
      index = max(range(len(weights)), key=weights.__getitem__)
      choice = Choice(self.last, index, weights, False)
      for i, weight in enumerate(weights):
        if i == index:
          continue
        other = choice._replace(index=i, edge=i == edge)
        if other.edge and not self.edge:
          self.left.append((float(self.weight), other))
        elif not other.edge and (share := self.weight * weight) >= self._least:
          self.left.append((float(share), other))
    self.last = choice
    self.edge |= choice.edge
    if not choice.edge:
      self.weight *= weights[choice.index]
    if self.weight < self._least:
      raise CutError
    return choice.index


# Stand-ins are put in the place of functions that all threads use.
_LOCK = threading.RLock()

# The way of the run that is going on.
_current: list[Way] = []


def _end(error: BaseException) -> None:
  if _current and _current[-1].ended is None:
    _current[-1].ended = error


def way() -> Way:
  """Returns the way of the run that is going on."""
  if not _current:
    raise ExploreError(
      "a random number of one run is looked at after it: the function keeps"
      " something from run to run"
    )
  return _current[-1]


def explore(
  function: Callable,
  *,
  program: Callable | None = None,
  budget: int = 100_000,
  least: float = 1e-15,
  seconds: float = 10.0,
  total_seconds: float = 600.0,
) -> Law:
  """Finds the exact law of what a function returns.

  It is called with an `rng` that stands for NumPy's Generator if it takes one
  argument without a default; what it draws from `random`, `numpy.random` and
  `torch` is seen as well.

  Args:
    function: Deterministic but for what it draws.
    program: What it calls, if that is somebody else's: names and generators in
      the modules beside it are seen as well. None: the function itself.
    budget: Runs at most, the likeliest ways first; what is left is unexplored.
    least: Ways of less weight are not followed; they are unexplored.
    seconds: For one run, after which it counts as endless.
    total_seconds: For all runs.

  Raises:
    ExploreError: It looks at a random number in another way than comparing it,
      it does not end, or it keeps something from run to run.
  """
  limits = budget, Fraction(least), seconds, total_seconds
  with _LOCK:
    loaded = "torch" in sys.modules
    try:
      law = _explored(function, program or function, *limits)
    except ExploreError:
      if loaded or "torch" not in sys.modules:
        raise
    else:
      if loaded or "torch" not in sys.modules:
        return law
    # The function imported torch: what it drew was not seen.
    return _explored(function, program or function, *limits)


def _explored(function, program, budget, limit, seconds, total_seconds) -> Law:
  from tv_jax.certify.dice import sources

  chances: dict[Any, Fraction] = {}
  edges: dict[Any, None] = {}
  order = itertools.count()
  waiting: list[tuple] = [(0.0, next(order), None)]
  runs = 0
  end = time.monotonic() + total_seconds
  with sources.replaced(program) as call:
    while waiting and runs < budget and time.monotonic() < end:
      one, value = _run(
        function, call, heapq.heappop(waiting)[-1], limit, seconds
      )
      runs += 1
      # All draws of a program may be unseen: its first run is its only one.
      for _ in range(8 if runs == 1 else runs <= _REPEATED):
        again, other = _run(function, call, one.last, limit, seconds)
        if (other,) != (value,) or again.left:  # NaN is itself
          raise ExploreError(
            f"two runs that drew the same return {shown(value)} and"
            f" {shown(other)}: the function keeps something from run to run,"
            " or draws numbers that are not seen"
          )
      if value is not _CUT and one.edge:
        edges[value] = None
      elif value is not _CUT:
        chances[value] = chances.get(value, Fraction(0)) + one.weight
      for weight, last in one.left:
        heapq.heappush(waiting, (-weight, next(order), last))
      if len(waiting) > 2 * (budget - runs):  # the others' turn never comes
        waiting = heapq.nsmallest(budget - runs, waiting)
  return Law(
    chances=chances,
    edges=tuple(value for value in edges if value not in chances),
    unexplored=1 - sum(chances.values(), Fraction(0)),
    runs=runs,
  )


_CUT = object()


def _run(function, call, last, least, seconds) -> tuple[Way, Any]:
  """Runs the function once; returns its way and what it returned."""
  one = Way(last, least)
  _current.append(one)
  try:
    with (
      alarm.limit(seconds, RefusedError),
      np.errstate(divide="ignore", invalid="ignore"),
    ):
      value = _returned(call, function, one)
    if one.told:
      raise ExploreError(
        "two runs that drew the same differ: the function keeps something from"
        " run to run"
      )
    return one, plain(value)
  except CutError:
    return one, _CUT
  except ExploreError:
    raise
  except RefusedError as error:
    raise ExploreError(f"{_line_of(error)}{error}") from None
  except (Exception, SystemExit) as error:
    if one.edge or one.weight < ROUNDING:
      return one, _CUT
    told = f"{_line_of(error)}{names.raised(error)}"
    raise ExploreError(f"the program fails: {told}") from error
  finally:
    _current.pop()


def _returned(call, function, one: Way):
  """Returns what a function does, unless it caught what ends the run."""
  try:
    return call(function)
  finally:
    if one.ended is not None:
      raise one.ended


_NOT_OWN = ("site-packages", "tv_jax/certify/", "<frozen", ".pyx")
_NOT_OWN += (sysconfig.get_path("stdlib"),)


def _line_of(error: BaseException) -> str:
  """Returns the last line of the user's own code that led to an error."""
  found, trace = "", error.__traceback__
  while trace is not None:
    path = trace.tb_frame.f_code.co_filename
    if not any(part in path for part in _NOT_OWN):
      found = f"{path}, line {trace.tb_lineno}: "
    trace = trace.tb_next
  return found


def plain(value) -> Hashable:
  """Returns what a function returned as something to count by."""
  if hasattr(value, "tolist") and not isinstance(value, type):
    value = value.tolist()
  if isinstance(value, list | tuple):
    return tuple(map(plain, value))
  if isinstance(value, dict):
    return tuple((plain(k), plain(v)) for k, v in value.items())
  if isinstance(value, float) and value != value:
    return np.nan  # one object, that all of them are counted as one
  if isinstance(value, Hashable) and not hasattr(value, "is_random"):
    return value
  raise ExploreError(
    f"the function returns {shown(repr(value))}: return tokens or other values"
    " that can be compared"
  )


def rational(value) -> Fraction:
  """Returns a finite number as the rational that it is."""
  found = exact(value)
  if not isinstance(found, Fraction):
    raise ValueError(f"{value} is no finite number")
  return found


def exact(value) -> Fraction | float | None:
  """Returns a number as the rational that it is; infinities and NaN stay.

  None: it is no number.
  """
  if isinstance(value, np.ndarray) and value.ndim:
    return None
  if hasattr(value, "item") and getattr(value, "shape", None) in ((), (1,)):
    value = value.item()
  if isinstance(value, np.generic):
    value = value.item()
  if isinstance(value, Fraction | int):
    return Fraction(value)
  if isinstance(value, float):
    return Fraction(value) if np.isfinite(value) else value
  return None
