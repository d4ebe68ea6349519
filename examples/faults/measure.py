"""Measure the gallery's programs exactly, with the certificate."""

import dataclasses
import itertools
from types import ModuleType

import numpy as np

from examples.faults import common
from tv_jax import certify, proposals, tree
from tv_jax.certify import programs
from tv_jax.certify.report import Certificate
from tv_jax.certify.worlds import World

V = 3
LENGTH = common.DEPTH + 1  # maximum number of tokens of a cycle
PAIRS = 4
SETTINGS = certify.Settings(vocabulary=V, tolerance=1e-12)
TREE = tree.from_parents([-1, 0, 0, 1, 1])  # two drafts, two below the first


def prefixes():
  """List all prefixes of a cycle's tokens."""
  for size in range(LENGTH + 1):
    yield from itertools.product(range(V), repeat=size)


def worlds() -> list[World]:
  """Draw targets p, and drafts q = (p + a random law) / 2."""
  drawn = []
  for seed in range(PAIRS):
    dice = np.random.default_rng(seed)
    laws = {}
    for prefix in prefixes():
      p, other = dice.dirichlet(np.full(V, 0.7), size=2)
      laws[prefix] = p, (p + other) / 2
    drawn.append(given(laws))
  return drawn


def given(laws) -> World:
  """Use given laws p and q for each prefix."""
  return World("given", V, laws.__getitem__)


def constant(p: tuple[float, ...], q: tuple[float, ...]) -> World:
  """Use the same laws after every prefix."""
  return given(dict.fromkeys(prefixes(), (np.array(p), np.array(q))))


def measure(program, world: World) -> tuple[float, float]:
  """Find a program's exact law in a world.

  Returns:
    Total variation between the output and the target, and the mean number of
    tokens of a cycle.
  """
  drawn = proposals.WITHOUT_REPLACEMENT
  case = programs.run(program, drawn, SETTINGS, tree_of(program), world)
  return case.distance, case.length


def tree_of(program) -> tree.Tree | None:
  """Return the tree that a program gets: a cycle drafts for itself."""
  return None if programs.signature(program) == programs.CYCLE else TREE


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
  caught: Certificate
  mended: Certificate


def row(program: ModuleType) -> Row:
  """Measure and certify a fault and its fix."""
  both = program.faulty, program.fixed
  every = worlds()
  if pair := getattr(program, "LAWS", ()):
    every.append(constant(*pair))
  measured = [[measure(x, world) for x in both] for world in every]
  caught, mended = (
    certify.check_program(x, tree=tree_of(x), **SETTINGS._asdict())
    for x in both
  )
  return Row(
    program=program,
    distances=[faulty[0] for faulty, _ in measured],
    gains=[faulty[1] - fixed[1] for faulty, fixed in measured],
    caught=caught,
    mended=mended,
  )
