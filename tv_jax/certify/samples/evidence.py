"""What samples say of a law that is known, whenever one looks at them.

A sample is a sequence of K tokens after one of P prompts, and `law` [P, V^K]
has the chance of each. Sequences are numbers of K digits to the base V, so that
those that begin alike stand together.

- `wealth` convicts. It is a bet against the law, of expected value 1, so that
  it ever reaches 1/alpha with probability alpha at most (Ville 1939;
  Waudby-Smith and Ramdas 2024). The bet is a mixture of likelihood ratios, as
  Krichevsky's and Trofimov's (1981), but of Dirichlet laws around the known
  one. Theirs, over all laws, pays log(samples)/2 for each of the V^K cells.
- `upper_bound` acquits: the total variation in the mean over the samples is
  less, at all numbers of samples in `looks` at once.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
from scipy import special

# Bets are laid on engines about so far from the law, in TV.
DISTANCES = (0.01, 0.02, 0.05, 0.1, 0.2, 0.4)
# The number of samples at which the bound is first looked at, and its growth.
FIRST, GROWTH = 100, 1.25


class Worst(NamedTuple):
  """The beginning of a text whose count is least as it should be."""

  prompt: int
  tokens: tuple[int, ...]
  seen: int
  of: int  # samples of this prompt
  chance: float


def depth(law: np.ndarray, V: int) -> int:
  """Returns K."""
  return round(math.log(law.shape[1], V))


def begun(values: np.ndarray, V: int, k: int) -> np.ndarray:
  """Returns [.., P, V^k]: sums over all but the first k tokens."""
  return values.reshape(*values.shape[:-1], V**k, -1).sum(axis=-1)


def count(law: np.ndarray, which, codes) -> np.ndarray:
  """Returns [P, V^K] how often each sequence came."""
  cells = which * law.shape[1] + codes
  return np.bincount(cells, minlength=law.size).reshape(law.shape)


def wealth(law: np.ndarray, V: int, which, codes) -> np.ndarray:
  """Returns the log of what a stake of 1 has become, after each sample.

  A Dirichlet law of weight c around p is about sum sqrt(p / (2 pi c)) from p.

  Args:
    law: [P, V^K].
    V: Of the vocabulary.
    which: [.., samples] each one's prompt, in the order in which they came.
    codes: [.., samples] each one's sequence.

  Returns:
    [.., samples].
  """
  K, before, bets = depth(law, V), _earlier(which), []
  for k in range(1, K + 1):
    p, first = begun(law, V, k), codes // V ** (K - k)
    chance, same = p[which, first], _earlier(which * V**k + first)
    for distance in DISTANCES:
      weight = (np.sqrt(p).sum(axis=1) / distance) ** 2 / (2 * np.pi)
      prior = weight[which]
      with np.errstate(divide="ignore", invalid="ignore"):
        gain = np.log((prior * chance + same) / (prior + before) / chance)
      bets.append(np.cumsum(np.where(chance > 0, gain, np.inf), axis=-1))
  return special.logsumexp(bets, axis=0) - math.log(len(bets))


def _earlier(labels) -> np.ndarray:
  """Returns how many before it, along the last axis, have the same label."""
  n = labels.shape[-1]
  rows = labels.reshape(-1, n)
  lines = np.arange(len(rows))[:, None] * (int(labels.max(initial=0)) + 1)
  flat = (rows + lines).ravel()
  order = np.argsort(flat, kind="stable")
  ordered, place = flat[order], np.arange(flat.size)
  starts = np.flatnonzero(np.diff(ordered, prepend=-1))
  result = np.empty_like(place)
  result[order] = place - np.repeat(starts, np.diff(starts, append=flat.size))
  return result.reshape(labels.shape)


def looks(most: int, confidence: float) -> Iterator[tuple[int, float]]:
  """Yields numbers of samples up to `most`, and what a mean may be off there.

  All that these allow for happens with the confidence.
  """
  for j in itertools.count():
    samples = math.ceil(FIRST * GROWTH**j)
    if samples > most:
      return
    alarm = (1 - confidence) / ((j + 1) * (j + 2))
    yield samples, math.sqrt(-math.log(alarm) / (2 * samples))


def upper_bound(
  law: np.ndarray, which, codes, confidence: float
) -> tuple[int, float]:
  """Bounds the TV by the last look; by 1 before the first.

  What was seen is a convex function of the frequencies, and so at least the TV
  in the mean (Jensen), and a sample moves it by 1/samples (McDiarmid 1989).

  Returns:
    How many samples were looked at, and the bound.
  """
  *_, (samples, error) = [(0, 1.0), *looks(len(codes), confidence)]
  counts = count(law, which[:samples], codes[:samples])
  due = counts.sum(axis=1, keepdims=True) * law
  seen = float(abs(counts - due).sum()) / 2 / max(samples, 1)
  return samples, min(1.0, seen + error)


def worst(law: np.ndarray, V: int, counts: np.ndarray) -> Worst:
  """Finds the count that is farthest off, in standard errors."""
  candidates = []  # of each length, with how far it is off
  for k in range(1, depth(law, V) + 1):
    seen, chance = begun(counts, V, k), begun(law, V, k)
    of = seen.sum(axis=1, keepdims=True)
    off = (seen - of * chance) ** 2 / (of * chance * (1 - chance) + 1)
    i, code = (int(x) for x in np.unravel_index(off.argmax(), off.shape))
    numbers = int(seen[i, code]), int(of[i, 0]), float(chance[i, code])
    candidates.append((off.max(), Worst(i, digits(code, V, k), *numbers)))
  return max(candidates, key=lambda pair: pair[0])[1]


def digits(code: int, V: int, k: int) -> tuple[int, ...]:
  """Returns the k tokens of a sequence."""
  return tuple(code // V**i % V for i in reversed(range(k)))
