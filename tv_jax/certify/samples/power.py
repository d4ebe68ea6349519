"""How many samples make it clear, announced before there is one."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from tv_jax.certify.samples import evidence

# What is announced happens in this share of cases at least; it is announced
# where it happens in a little more of the simulated ones.
PROMISED, SEEN, SIMULATIONS = 0.9, 0.94, 200
_MOST = 10**9


class Needed(NamedTuple):
  """How many samples make it clear; None: more than a billion."""

  convict: int | None
  acquit: int | None


def planted(law: np.ndarray, within: float) -> np.ndarray:
  """Returns the law of an engine that is off by this TV after every prompt.

  Some sequences come a little more often, and the others less, each about half
  of the mass: no law at this TV is nearer in chi-square, or harder to tell.
  """
  result = law.copy()
  for own, p in zip(result, law, strict=True):
    more, mass = np.zeros(len(p), bool), [0.0, 0.0]
    for x in np.argsort(-p, kind="stable"):
      side = int(mass[1] < mass[0])
      more[x] = side
      mass[side] += p[x]
    if mass[1] > mass[0]:  # no chance is to sink below 0
      more, mass = ~more, mass[::-1]
    if mass[1] > 0:
      own *= np.where(more, 1 + within / mass[1], 1 - within / mass[0])
  return result


def needed(
  law: np.ndarray, V: int, within: float, confidence: float, seed: int = 0
) -> Needed:
  """Finds, by simulation, how many samples are enough in most cases.

  Args:
    law: [P, V^K].
    V: Of the vocabulary.
    within: A TV.
    confidence: With which engines are convicted and acquitted.
    seed: Of the simulation.

  Returns:
    How many convict an engine that is `planted`, and acquit one that is right
    of a TV above `within`; with as many samples of each prompt.
  """
  wrong = planted(law, within)
  each = max(1, 2**20 // law.size)

  def first(engine, clear):
    def often(j, samples):
      rng, total = np.random.default_rng(seed), np.full(len(law), samples)
      seen = []
      for start in range(0, SIMULATIONS, each):
        size = (min(each, SIMULATIONS - start), len(law))
        counts = evidence.draw(rng, total // len(law), engine, size)
        seen += clear(counts, evidence.error(j, samples, confidence)).tolist()
      return sum(seen) >= SEEN * SIMULATIONS

    return _first(often)

  def convicts(counts, error):
    del error
    return evidence.wealth_of(law, V, counts) >= -math.log(1 - confidence)

  def acquits(counts, error):
    return evidence.distance(law, counts) + error <= within

  return Needed(first(wrong, convicts), first(law, acquits))


def _first(often: Callable[[int, int], bool]) -> int | None:
  """Returns the first look at which it is so; at all later ones it is, too."""
  sizes = [*itertools.takewhile(_MOST.__ge__, evidence.looks())]
  low, high = 0, len(sizes)
  while low < high:
    middle = (low + high) // 2
    if often(middle, sizes[middle]):
      high = middle
    else:
      low = middle + 1
  return sizes[low] if low < len(sizes) else None
