"""The choices of a program: every fork of its runs is made here.

- Fork on a comparison: `Uniform.less` splits the interval of a uniform.
- Choose from a distribution: `draw` chooses an index.
- Draw a race: `race` chooses the winner among exponential variables, and
  `Exponential.less` among two. A race bounds the ratios of its variables, and
  the bounds count in later races with the same variables.
"""

from __future__ import annotations

import functools
from fractions import Fraction
from typing import Any

from tv_jax.certify.dice.paths import RefusedError, current, rational, refuse

# Maximum number of equally likely outcomes of a draw.
_MOST = 100_000


class Uniform:
  """A uniform in [low, high), or in (low, high) if `open`.

  Attributes:
    logs: {1: -log u, -1: -log(1 - u)}, as far as the program took them.
    raced: Whether one of these logarithms was compared with other noise.
  """

  def __init__(self):
    """Makes a uniform in [0, 1)."""
    current()
    self.low, self.high, self.open = Fraction(0), Fraction(1), False
    self.logs: dict[Fraction, Any] = {}
    self.raced = False

  def less(self, number: Fraction, or_equal: bool) -> bool:
    """Returns whether u < number or u <= number; may split the interval."""
    if self.low == self.high:  # u is exactly 0
      return number >= 0 if or_equal else number > 0
    if number >= self.high:
      return True
    if number < self.low or (number == self.low and (number or self.open)):
      return False
    if number == 0 and not or_equal:
      return False
    if self.raced:
      refuse(
        "compares a uniform whose logarithm was in a race (in JAX: one key was"
        " probably used for both; split it)"
      )
    if number == 0:
      # u <= 0 holds only if u is exactly 0.
      if current().choose((Fraction(0), Fraction(1)), at_zero=0) == 0:
        self.high = self.low
        return True
      self.open = True
      return False
    share = (number - self.low) / (self.high - self.low)
    if current().choose((share, 1 - share)) == 0:
      self.high = number
      return True
    self.low, self.open = number, False
    return False


def draw(weights) -> int:
  """Draws an index by weights, which need not sum to 1."""
  numbers = (x.item() if hasattr(x, "item") else x for x in weights)
  return current().choose(_shares(tuple(numbers)))


@functools.lru_cache(maxsize=4096)
def _shares(weights: tuple) -> tuple[Fraction, ...]:
  """Returns weights over their sum."""
  shares = [rational(x) for x in weights]
  total = sum(shares, Fraction(0))
  if not total or min(shares) < 0:
    raise ValueError(f"probabilities are {[*map(float, weights)]}")
  return tuple(x / total for x in shares)


def draw_below(count: int) -> int:
  """Draws an integer from 0 .. count - 1 uniformly."""
  if count > _MOST:
    raise RefusedError(
      f"draws one of {count} numbers: all would be tried, and more than {_MOST}"
      " are too many (a uniform is followed without end, and a generator needs"
      " no drawn seed; a program in JAX is given a key by --arrays=jax)"
    )
  return draw([1] * count)


def draw_distinct(weights, count: int) -> list[int]:
  """Draws `count` different indices, one after the other."""
  left, drawn = [*weights], []
  for _ in range(count):
    if not any(left):
      raise ValueError("Fewer non-zero entries in p than size")
    drawn.append(draw(left))
    left[drawn[-1]] = 0
  return drawn


class Exponential:
  """An exponential variable E; E = -log(uniform) if a uniform is given."""

  def __init__(self, uniform: Any = None):
    """Makes a new variable."""
    path = current()
    self.index, path.variables = path.variables, path.variables + 1
    self.uniform = uniform
    self.shift: Fraction | None = None  # see `cells.Cell.pure`

  def enter(self) -> None:
    """Enters a race; refuses if the program also uses the uniform."""
    if self.uniform is not None:
      source = self.uniform.source
      if source.low or source.high < 1 or len(source.logs) > 1:
        refuse("races with the logarithm of a uniform that is used besides")
      if not source.raced:
        cell = self.uniform
        low, high = sorted((cell.b, cell.a + cell.b))
        blur(abs(low) + abs(high - 1))
      source.raced = True

  def less(self, other: Exponential, ratio: Fraction) -> bool:
    """Returns whether E < ratio * other; both answers are tried."""
    self.enter()
    other.enter()
    path = current()
    yes = other.index, self.index, 1 / ratio
    no = self.index, other.index, ratio
    chance = path.chance([yes])
    first = path.choose((chance, 1 - chance)) == 0
    path.bounds |= {yes if first else no}
    return first


def race(variables: dict[int, Exponential], rates: dict[int, Fraction]) -> int:
  """Returns the key of the variable with the least E / rate.

  The winner is a single choice. Comparisons of pairs would need a path for each
  sequence of leaders.
  """
  path, total = current(), sum(rates.values())
  for variable in variables.values():
    variable.enter()
  index = {i: variable.index for i, variable in variables.items()}
  known = {i for bound in path.bounds for i in bound[:2]}
  linked = not known.isdisjoint(index.values())

  def bounds_of(i: int) -> list[tuple]:
    others = [j for j in rates if j != i]
    return [(index[j], index[i], rates[j] / rates[i]) for j in others]

  if linked:
    weights = [path.chance(bounds_of(i)) for i in rates]
  else:
    weights = [rate / total for rate in rates.values()]
  first = [*rates][path.choose(weights) if len(weights) > 1 else 0]
  path.bounds |= {*bounds_of(first)}
  return first


def blur(share: Fraction) -> None:
  """Adds to the bound on the error that tiny numbers in noise cause.

  E + eps, max(E, eps) and -log(u + eps) are followed as E. Each differs from E
  by a total variation of at most eps. The law of the program's result is off by
  at most the sum of all eps.
  """
  current().blur += share
