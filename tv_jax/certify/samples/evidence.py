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

import math
from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
from scipy import special, stats

# Bets are laid on engines about so far from the law, in TV.
DISTANCES = (0.01, 0.02, 0.05, 0.1, 0.2, 0.4)
# The number of samples at which the bound is first looked at, and its growth.
FIRST, GROWTH = 100, 1.25
# A right engine is acquitted in this share of cases by what `needed` says.
PROMISED = 0.9


class Worst(NamedTuple):
  """The token of a prefix whose share is least like its chance."""

  prompt: int
  prefix: tuple[int, ...]
  token: int
  seen: int
  of: int  # how often the prefix came
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


def looks(most: float, confidence: float) -> Iterator[tuple[int, float]]:
  """Yields numbers of samples up to `most`, and what a mean may be off there.

  All that these allow for happens with the confidence.
  """
  j = 0
  while (samples := math.ceil(FIRST * GROWTH**j)) <= most:
    alarm = (1 - confidence) / ((j + 1) * (j + 2))
    yield samples, math.sqrt(-math.log(alarm) / (2 * samples))
    j += 1


def upper_bound(
  law: np.ndarray, which, codes, confidence: float
) -> tuple[int, float] | None:
  """Bounds the TV by the last look; None before the first.

  What was seen is a convex function of the frequencies, and so at least the TV
  in the mean (Jensen), and a sample moves it by 1/samples (McDiarmid 1989).

  Returns:
    How many samples were looked at, and the bound.
  """
  *_, last = [None, *looks(len(codes), confidence)]
  if last is None:
    return None
  samples, error = last
  counts = count(law, which[:samples], codes[:samples])
  due = counts.sum(axis=1, keepdims=True) * law
  return samples, min(1.0, float(abs(counts - due).sum()) / 2 / samples + error)


def needed(law: np.ndarray, within: float, confidence: float) -> int:
  """Returns how many samples acquit a right engine, in `PROMISED` of cases.

  As many of each prompt. The mean of |X - n p|, X binomial, is De Moivre's
  2 v (1 - p) P(X = v) with v the first integer above n p; what is seen exceeds
  its mean by little (McDiarmid).
  """

  def bound(samples, error):
    n = samples // len(law)
    v = np.floor(n * law) + 1
    mean = (v * (1 - law) * stats.binom.pmf(v, n, law)).sum() / samples
    return mean + math.sqrt(-math.log(1 - PROMISED) / (2 * samples)) + error

  every = looks(math.inf, confidence)
  return next(look[0] for look in every if bound(*look) <= within)


def worst(law: np.ndarray, V: int, counts: np.ndarray) -> Worst:
  """Finds where a token's share of its prefix is least likely by chance."""
  best, oddest = -1.0, None
  for k in range(1, depth(law, V) + 1):
    seen, due = begun(counts, V, k), begun(law, V, k)
    of, above = (np.repeat(begun(x, V, k - 1), V, 1) for x in (counts, law))
    share = seen / np.maximum(of, 1)
    chance = np.clip(due / np.where(above > 0, above, 1), 0, 1)
    odd = special.rel_entr(share, chance)
    odd = of * (odd + special.rel_entr(1 - share, 1 - chance))
    if (largest := odd.max()) > best:
      best, place = largest, np.unravel_index(odd.argmax(), odd.shape)
      *prefix, token = digits(int(place[1]), V, k)
      numbers = int(seen[place]), int(of[place]), float(chance[place])
      oddest = Worst(int(place[0]), tuple(prefix), token, *numbers)
  assert oddest is not None
  return oddest


def digits(code: int, V: int, k: int) -> tuple[int, ...]:
  """Returns the k tokens of a sequence."""
  return tuple(code // V**i % V for i in reversed(range(k)))
