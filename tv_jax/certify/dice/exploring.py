"""Finds the exact law of a function's result: every outcome is tried."""

from __future__ import annotations

import dataclasses
import heapq
import itertools
import threading
from collections.abc import Callable, Hashable
from fractions import Fraction
from typing import Any

import numpy as np

from tv_jax.certify.dice import jax_tracing, paths
from tv_jax.certify.dice.cells import Cell
from tv_jax.certify.dice.generators import Dice
from tv_jax.certify.dice.paths import (
  DIFFERENT,
  CutError,
  ExploreError,
  Path,
  RefusedError,
)
from tv_jax.certify.dice.replaced import (
  line_of,
  replaced,
  takes_rng,
  way_out,
)

# Failures of the program that are less likely together count as rounding, also
# in float32: their paths are unexplored.
_ROUNDING = Fraction(1, 10**6)
# The first runs are repeated, to test that equal draws give equal results.
_REPEATED = 64
# The `work` of a path that takes as long as a run.
_WORK = 1000
# Stand-ins replace functions of modules, which all threads share.
_LOCK = threading.RLock()
_CUT = object()


@dataclasses.dataclass(frozen=True, kw_only=True)
class Law:
  """The law of a function's result.

  Attributes:
    chances: Probability of each result; lists and arrays become tuples.
    at_zero: Results that occur only if a uniform is exactly 0. They have no
      weight here, but real generators do return 0.
    unexplored: Weight of the paths that were not followed to the end, or ended
      with a failure by rounding.
    runs: Number of runs of the function.
    blur: Bound on the total variation due to tiny numbers added to noise:
      E + 1e-10 is followed as E.
    failures: Probability of each rare failure of the function.
  """

  chances: dict[Any, Fraction]
  at_zero: tuple
  unexplored: Fraction
  runs: int
  blur: Fraction
  failures: dict[str, Fraction]

  def distance(self, other: dict[Any, Fraction]) -> float:
    """Returns the total variation from a law; unexplored paths count fully."""
    apart = sum(
      abs(Fraction(self.chances.get(x, 0)) - Fraction(other.get(x, 0)))
      for x in {*self.chances, *other}
    )
    return float((apart + self.unexplored) / 2 + self.blur)

  def __repr__(self) -> str:
    """Returns a line for each outcome, the likeliest first."""
    ranked = sorted(self.chances.items(), key=lambda item: -item[1])
    lines = [f"{float(chance):.9f}  {value}" for value, chance in ranked]
    lines += [f"{'at u = 0':>11}  {value}" for value in self.at_zero]
    if self.unexplored:
      lines.append(f"{float(self.unexplored):.9f}  not explored")
    return "\n".join([*lines, f"{self.runs} runs"])


def explore(
  function: Callable,
  *,
  budget: int = 100_000,
  arrays: str = "numpy",
) -> Law:
  """Finds the exact law of a function's result.

  A function with an argument without a default gets a stand-in for NumPy's
  Generator, or with arrays="jax" a `jax.random.key`. Draws from `random`,
  `numpy.random` and `torch` are followed as well.

  Args:
    function: A function that is deterministic except for its draws.
    budget: Maximum number of runs, less if they compare many noises in pairs.
      The likeliest paths are run first; the rest is unexplored.
    arrays: "jax" for a function in JAX, which draws by keys.

  Raises:
    ExploreError: The function uses a random number in another way than
      comparing it, fails, or keeps state from run to run.
  """
  chances: dict[Any, Fraction] = {}
  at_zero: dict[Any, None] = {}
  failures: dict[str, Fraction] = {}
  order = itertools.count()
  waiting: list[tuple] = [(0.0, next(order), None)]
  runs, spent, blur = 0, 0, Fraction(0)
  given = jax_tracing.given_key if arrays == "jax" else Dice
  call = (lambda: function(given())) if takes_rng(function) else function
  with _LOCK, replaced():
    while waiting and spent < budget:
      path = Path(heapq.heappop(waiting)[-1])
      runs += 1
      try:
        value = _run(call, path)
      except _FailedError as error:
        told = str(error)
        failures[told] = failures.get(told, Fraction(0)) + path.weight
        if sum(failures.values()) > _ROUNDING:
          raise ExploreError(told) from error.__cause__
        value = _CUT
      # If no draw is followed, there is only one run: repeat it more often.
      repeats = 8 if runs == 1 else runs <= _REPEATED
      for _ in range(0 if value is _CUT else repeats):
        again = Path(path.last)
        other = _run(call, again)
        if (other,) != (value,) or again.others:  # in a tuple, NaN equals NaN
          raise ExploreError(
            f"two runs that drew the same return {value!r:.80} and"
            f" {other!r:.80}: {DIFFERENT}"
          )
      if value is not _CUT and path.at_zero:
        at_zero[value] = None
      elif value is not _CUT:
        chances[value] = chances.get(value, Fraction(0)) + path.weight
        blur += path.weight * path.blur
      for weight, last in path.others:
        heapq.heappush(waiting, (-weight, next(order), last))
      spent += 1 + path.work // _WORK
      left = max(budget - spent, 0)
      if len(waiting) > 2 * left:  # the budget excludes the others
        waiting = heapq.nsmallest(left, waiting)
  return Law(
    chances=chances,
    at_zero=tuple(value for value in at_zero if value not in chances),
    unexplored=1 - sum(chances.values(), Fraction(0)),
    runs=runs,
    blur=blur,
    failures=failures,
  )


class _FailedError(ExploreError):
  """The function fails on a path."""


def _run(call: Callable, path: Path) -> Any:
  """Runs the function along a path; returns its result, or _CUT."""
  try:
    with (
      paths.followed(path),
      jax_tracing.followed(path),
      np.errstate(divide="ignore", invalid="ignore"),
    ):
      try:
        value = call()
      finally:
        if path.ended is not None:  # even if the function caught it
          raise path.ended
    if path.planned:
      raise ExploreError(f"two runs that drew the same differ: {DIFFERENT}")
    return plain(value)
  except CutError:
    return _CUT
  except ExploreError:
    raise
  except RefusedError as error:
    if path.at_zero:
      return _CUT
    line = "{}, line {}: ".format(*error.caller) if error.caller else ""
    told = f"{error.line or line}{error}{way_out(error)}"
    raise ExploreError(told) from None
  except (Exception, SystemExit) as error:
    if path.at_zero:
      return _CUT
    reason = f"{type(error).__name__}: {' '.join(str(error).split())}"
    if "PRNG key" in reason:
      reason += " (a program in JAX is given a key by --arrays=jax)"
    raise _FailedError(
      f"the program fails: {line_of(error)}{reason}{way_out(error)}"
    ) from error


def plain(value) -> Hashable:
  """Converts a function's result to a hashable value."""
  if hasattr(value, "tolist") and not isinstance(value, type):
    value = value.tolist()
  if isinstance(value, list | tuple):
    return tuple(map(plain, value))
  if isinstance(value, dict):
    return tuple((plain(k), plain(v)) for k, v in value.items())
  if isinstance(value, float) and value != value:
    return np.nan  # a single object, so that all NaNs count as equal
  if isinstance(value, Hashable) and not isinstance(value, Cell):
    return value
  raise ExploreError(
    f"the function returns {value!r:.80}: return tokens or other values that"
    " can be compared"
  )
