"""Measure the gallery's programs exactly, with the certificate."""

import dataclasses
import itertools
from types import ModuleType
from typing import Any

import numpy as np

from examples.faults import common
from tv_jax import certify, tree
from tv_jax.certify import contracts, programs

V = 3
LENGTH = common.DEPTH + 1  # maximum number of tokens of a cycle
PAIRS = 4
SETTINGS = programs.Settings(
  # two drafts, and two more below the first
  tree=tree.from_parents([-1, 0, 0, 1, 1]),
  tolerance=1e-12,
)


@dataclasses.dataclass(frozen=True)
class Laws:
  """A law for each prefix that follows the certificate's context."""

  laws: dict[tuple[int, ...], np.ndarray]
  V: int = V

  def __call__(self, prefix):
    """Return the law of the next token."""
    return self.laws[tuple(prefix)[len(contracts.CONTEXT) :]].copy()


def prefixes():
  """List all prefixes of a cycle's tokens."""
  for size in range(LENGTH + 1):
    yield from itertools.product(range(V), repeat=size)


def pairs() -> list[tuple[Laws, Laws]]:
  """Draw targets p, and drafts q = (p + a random law) / 2."""
  drawn = []
  for seed in range(PAIRS):
    dice = np.random.default_rng(seed)
    p, q = {}, {}
    for prefix in prefixes():
      p[prefix], other = dice.dirichlet(np.full(V, 0.7), size=2)
      q[prefix] = (p[prefix] + other) / 2
    drawn.append((Laws(p), Laws(q)))
  return drawn


def constant(law: tuple[float, ...]) -> Laws:
  """Use the same law after every prefix."""
  return Laws(dict.fromkeys(prefixes(), np.array(law)))


def measure(program, p: Laws, q: Laws) -> tuple[float, float]:
  """Find a program's exact law for a pair of laws.

  Returns:
    Total variation between the output and the target, and the mean number of
    tokens of a cycle.
  """
  cycle = contracts.as_cycle(program, SETTINGS)
  law = certify.explore(lambda rng: cycle(p, q, contracts.CONTEXT, rng))
  target: Any = p
  distance, _ = programs.compare(law, target, SETTINGS.allowed)
  mean = sum(len(out) * chance for out, chance in law.chances.items())
  return distance, float(mean)


@dataclasses.dataclass(frozen=True)
class Row:
  """A measured fault.

  Attributes:
    program: The module.
    distances: Total variation for each pair, and last for the program's LAWS.
    gains: Mean tokens of a cycle, `faulty` less `fixed`, for the same pairs.
    caught: The certificate of `faulty`.
    mended: The certificate of `fixed`.
  """

  program: ModuleType
  distances: list[float]
  gains: list[float]
  caught: programs.Certificate
  mended: programs.Certificate


def row(program: ModuleType) -> Row:
  """Measure and certify a fault and its fix."""
  both = program.faulty, program.fixed
  laws = pairs()
  if pair := getattr(program, "LAWS", ()):
    laws.append((constant(pair[0]), constant(pair[1])))
  measured = [[measure(x, p, q) for x in both] for p, q in laws]
  caught, mended = (programs.certify(x, SETTINGS) for x in both)
  return Row(
    program=program,
    distances=[faulty[0] for faulty, _ in measured],
    gains=[faulty[1] - fixed[1] for faulty, fixed in measured],
    caught=caught,
    mended=mended,
  )
