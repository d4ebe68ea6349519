"""What samples say of a law that is known: tests and bounds.

A sample is a sequence of K tokens after one of P prompts, and `law` [P, V^K]
has the chance of each. Sequences are numbers of K digits to the base V, so
that those that begin alike stand together. No statement here is asymptotic.

At any time, whatever made one look:

- `wealth` is a test martingale under the law: a bet against it, of expected
  value 1. It ever reaches 1/alpha with probability alpha at most (Ville 1939;
  Waudby-Smith and Ramdas 2024). The bet is a mixture of likelihood ratios, as
  Krichevsky's and Trofimov's (1981), but of Dirichlet laws around the known
  one. Theirs, over all laws, pays log(samples)/2 for each of the V^K cells.
- `bounds` holds the total variation in the mean over the samples. It looks
  after numbers of samples that are set in advance, with an error of its own
  for each, so that an end is ever wrong with probability alpha at most.

Only for a number of samples that was set in advance: `p_value`.
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
# The number of samples at which bounds are first looked at, and its growth.
FIRST, GROWTH = 100, 1.25


class Bounds(NamedTuple):
  """Of the total variation; each alone has the confidence."""

  samples: int  # the first so many are looked at
  lower: float
  upper: float


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


def _bets(law, V) -> Iterator[tuple[int, np.ndarray, np.ndarray]]:
  """Yields k, p [P, V^k], and weights [bets, P] of Dirichlet laws around p.

  A law that is drawn with weight c is about sum sqrt(p / (2 pi c)) from p.
  """
  for k in range(1, depth(law, V) + 1):
    p = begun(law, V, k)
    distances = np.array(DISTANCES)[:, None]
    yield k, p, (np.sqrt(p).sum(axis=1) / distances) ** 2 / (2 * np.pi)


def wealth(law: np.ndarray, V: int, which, codes) -> np.ndarray:
  """Returns the log of what a stake of 1 has become, after each sample.

  Args:
    law: [P, V^K].
    V: Of the vocabulary.
    which: [.., samples] each one's prompt, in the order in which they came.
    codes: [.., samples] each one's sequence.

  Returns:
    [.., samples].
  """
  K, before, grown = depth(law, V), _earlier(which), []
  for k, p, weights in _bets(law, V):
    first = codes // V ** (K - k)
    chance, same = p[which, first], _earlier(which * V**k + first)
    for weight in weights:
      own = weight[which]
      with np.errstate(divide="ignore", invalid="ignore"):
        gain = np.log((own * chance + same) / (own + before) / chance)
      gain = np.where(chance > 0, gain, np.inf)
      grown.append(np.cumsum(gain, axis=-1))
  return special.logsumexp(grown, axis=0) - math.log(len(grown))


def wealth_of(law: np.ndarray, V: int, counts: np.ndarray) -> np.ndarray:
  """Returns the last of `wealth`, from counts [.., P, V^K] alone."""
  grown = []
  for k, p, weights in _bets(law, V):
    own = begun(counts, V, k)
    total = own.sum(axis=-1)
    fair = special.xlogy(own, p).sum(axis=(-1, -2))
    for weight in weights:
      prior = weight[:, None] * p
      with np.errstate(invalid="ignore"):  # where p is 0
        cells = special.gammaln(prior + own) - special.gammaln(prior)
      cells = np.where(own > 0, cells, 0).sum(axis=-1)
      whole = special.gammaln(weight + total) - special.gammaln(weight)
      grown.append((cells - whole).sum(axis=-1) - fair)
  return special.logsumexp(grown, axis=0) - math.log(len(grown))


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


def looks() -> Iterator[int]:
  """Yields the numbers of samples after which bounds are looked at."""
  for j in itertools.count():
    yield math.ceil(FIRST * GROWTH**j)


def error(j: int, samples: int, confidence: float) -> float:
  """Returns what a mean may be off at the j-th look; their errors sum up."""
  own = (1 - confidence) / ((j + 1) * (j + 2))
  return math.sqrt(-math.log(own) / (2 * samples))


def distance(law: np.ndarray, counts: np.ndarray) -> np.ndarray:
  """Returns the TV of what was seen, in the mean over samples."""
  total = counts.sum(axis=-1, keepdims=True)
  off = np.abs(counts - total * law).sum(axis=(-1, -2)) / 2
  return off / np.maximum(total.sum(axis=(-1, -2)), 1)


def bounds(
  law: np.ndarray, V: int, which, codes, confidence: float
) -> Bounds | None:
  """Bounds the TV by the last look; None before the first.

  The upper bound: what was seen is a convex function of the frequencies, and
  so at least the TV in the mean (Jensen), and a sample moves it by 1/samples
  (McDiarmid 1989). The lower one: the excess of hits in sets of sequences that
  are chosen from what came before (Azuma and Hoeffding).
  """
  found, counts, excess = None, np.zeros(law.shape, int), 0.0
  start = 0
  for j, end in enumerate(itertools.takewhile(len(codes).__ge__, looks())):
    here, hits = which[start:end], codes[start:end]
    chosen = _more_than_due(law, V, counts)
    excess += chosen[here, hits].sum() - (chosen * law).sum(axis=1)[here].sum()
    counts += count(law, here, hits)
    off = error(j, end, confidence)
    upper = float(distance(law, counts)) + off
    found = Bounds(end, max(0.0, excess / end - off), min(1.0, upper))
    start = end
  return found


def _more_than_due(law, V, counts) -> np.ndarray:
  """Returns [P, V^K] whether what begins a sequence came more than is due.

  It is so long as differs most, beyond what is due to chance.
  """
  K, total = depth(law, V), counts.sum(axis=1, keepdims=True)
  best, chosen = -math.inf, np.zeros(law.shape, bool)
  for k in range(1, K + 1):
    due, own = total * begun(law, V, k), begun(counts, V, k)
    chance = np.minimum(np.sqrt(due / (2 * np.pi)), due)
    found = (np.abs(own - due) / 2 - chance).sum()
    if found > best:
      best, chosen = found, np.repeat(own > due, V ** (K - k), axis=1)
  return chosen


def p_value(
  law: np.ndarray, V: int, counts: np.ndarray, seed: int, draws: int = 4999
) -> float:
  """Tests by simulation, which is exact: the counts are one more draw or not.

  The statistic, of the first k tokens for the k where it is largest, is a
  chi-square with weights p^(2/3): no test of a TV needs fewer samples but by
  a constant factor (Valiant and Valiant 2017).
  """
  rng, total = np.random.default_rng(seed), counts.sum(axis=1)
  draws = int(np.clip(3e8 // counts.size, 199, draws))
  seen, beyond = _statistic(law, V, counts), 0
  each = max(1, 10**6 // counts.size)
  for start in range(0, draws, each):
    size = (min(each, draws - start), len(law))
    beyond += (_statistic(law, V, draw(rng, total, law, size)) >= seen).sum()
  return float((1 + beyond) / (1 + draws))


def _statistic(law, V, counts):
  """Returns [..], infinite where what cannot be was seen."""
  found = []
  for k in range(1, depth(law, V) + 1):
    own = begun(counts, V, k)
    due = own.sum(axis=-1, keepdims=True) * begun(law, V, k)
    with np.errstate(divide="ignore", invalid="ignore"):
      cells = ((own - due) ** 2 - own) / due ** (2 / 3)
    cells = np.where(due > 0, cells, np.where(own > 0, np.inf, 0))
    spread = np.sqrt((due ** (2 / 3)).sum(axis=(-1, -2)))
    found.append(cells.sum(axis=(-1, -2)) / np.maximum(spread, 1e-300))
  return np.max(found, axis=0)


def draw(rng, total, law: np.ndarray, size) -> np.ndarray:
  """Returns [.., P, V^K] counts of `total` samples of each prompt."""
  return rng.multinomial(total, law / law.sum(1, keepdims=True), size=size)


def worst(law: np.ndarray, V: int, counts: np.ndarray) -> Worst:
  """Finds where a token's share of its prefix is least likely by chance."""
  best, found = -1.0, None
  for k in range(1, depth(law, V) + 1):
    own, due = begun(counts, V, k), begun(law, V, k)
    of, above = (np.repeat(begun(x, V, k - 1), V, 1) for x in (counts, law))
    share = own / np.maximum(of, 1)
    chance = due / np.where(above > 0, above, 1)
    chance = np.clip(chance, 0, 1)
    odd = of * special.rel_entr(share, chance)
    odd += of * special.rel_entr(1 - share, 1 - chance)
    if (largest := np.max(odd)) > best:
      best, place = largest, np.unravel_index(np.argmax(odd), odd.shape)
      prompt, cell = map(int, place)
      *prefix, token = digits(cell, V, k)
      found = Worst(
        prompt,
        tuple(prefix),
        token,
        int(own[place]),
        int(of[place]),
        float(chance[place]),
      )
  assert found is not None
  return found


def digits(code: int, V: int, k: int) -> tuple[int, ...]:
  """Returns the k tokens of a sequence."""
  return tuple(code // V**i % V for i in reversed(range(k)))
