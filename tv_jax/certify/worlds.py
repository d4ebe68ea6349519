"""Random worlds: a target p and a draft q over a small vocabulary.

A world has a distribution p and a distribution q after every path of tokens
below the root. So nodes with the same path, such as siblings drawn twice, share
them. A rule runs on arrays of distributions, which hold a row for each path. A
program asks for one distribution after another, to any depth.

Paths are numbered as the nodes of the full V-ary tree. Such a number is called
a context: 0 is the empty path, and token t below context c leads to context
c * V + t + 1. Arrays have at most `ROWS` rows, and context c uses row c modulo
their number.
"""

import functools
import itertools
from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np

from tv_jax.io.errors import UserError

ROWS = 257
CONTEXT = (1, 0)  # the tokens before a program's cycle
# Kept here because numpy.random has stand-ins while a program runs.
_GENERATOR, _BITS = np.random.Generator, np.random.PCG64


class World(NamedTuple):
  """A target and a draft over a small vocabulary.

  Attributes:
    kind: A key of `KINDS`, or another word.
    vocabulary: Number of tokens.
    at: Returns the distributions p and q [V] after a path, a tuple of tokens.
  """

  kind: str
  vocabulary: int
  at: Callable[[tuple[int, ...]], tuple[np.ndarray, np.ndarray]]

  def rows(self, depth: int) -> tuple[np.ndarray, np.ndarray]:
    """Returns p and q [R, V] after all paths to a depth, `ROWS` at most."""
    levels = (
      itertools.product(range(self.vocabulary), repeat=size)
      for size in range(depth + 1)
    )
    paths = itertools.islice(itertools.chain.from_iterable(levels), ROWS)
    p, q = zip(*map(self.at, paths), strict=True)
    return np.stack(p), np.stack(q)


def of_rows(kind: str, p: np.ndarray, q: np.ndarray) -> World:
  """Makes a world of arrays [R, V] of distributions."""
  V = p.shape[1]

  def at(path):
    context = functools.reduce(lambda c, token: below(c, token, V), path, 0)
    return p[context % len(p)], q[context % len(q)]

  return World(kind, V, at)


def on_demand(
  kind: str,
  V: int,
  seed: tuple[int, ...],
  least: int = 1,
  draft: Sequence[int] = (),
  target: Sequence[int] = (),
) -> World:
  """Makes a world whose random distributions are drawn when they are asked for.

  Args:
    kind: A key of `KINDS`.
    V: Number of tokens.
    seed: Random seed.
    least: Minimum number of tokens with a positive probability under q.
    draft: Maximum number of tokens with a positive probability under q, at
      depth 0, 1, ..; the last entry holds for all greater depths. Empty: all.
    target: The same under p.
  """

  def few(law, least: int, most: Sequence[int], depth: int):
    law = law.copy()
    if np.count_nonzero(law) < least:
      law = (law + 0.25) / (1 + 0.25 * V)
    kept = most[min(depth, len(most) - 1)] if most else V
    if kept < V:
      law[np.argsort(law)[:-kept]] = 0
      law /= law.sum()
    return law

  @functools.cache
  def at(path):
    prefix = *CONTEXT, *path
    rng = _GENERATOR(_BITS([*seed, *prefix, len(prefix)]))
    p, q = KINDS[kind](rng, V)
    return few(p, 1, target, len(path)), few(q, least, draft, len(path))

  return World(kind, V, at)


def below(context, token, V: int):
  """Returns the context that `token` leads to from `context`."""
  return context * V + token + 1


def num_contexts(V: int, depth: int) -> int:
  """Returns how many contexts have at most `depth` tokens."""
  return (V ** (depth + 1) - 1) // (V - 1)


def tokens_for(siblings: int, V: int | None = None) -> int:
  """Returns V, by default as many tokens as a family of siblings needs.

  Raises:
    ValueError: The last sibling may have no choice, which would hide faults.
  """
  V = V or (3 if siblings < 3 else siblings + 2)
  if siblings >= V:
    raise UserError(
      f"of {siblings} siblings the last may have no choice among {V} tokens, so"
      f" that no fault there shows: give {siblings + 1} tokens or more"
    )
  return V


def _smooth(rng, V):
  return rng.dirichlet(np.ones(V)), rng.dirichlet(np.ones(V))


def tied(rng, q):
  """Returns q with some entries exchanged; the others are equal in both."""
  some = rng.permutation(len(q))[: rng.integers(2, len(q) + 1)]
  p = q.copy()
  p[some] = q[np.roll(some, 1)]
  return p


def _grid(rng, V):
  """Small fractions, for ties and short printed rows."""
  counts = rng.integers(0, 4, size=(2, V)) + 0.0
  counts[np.arange(2), rng.integers(V, size=2)] += 1
  p, q = counts / counts.sum(axis=1, keepdims=True)
  return (tied(rng, q) if rng.random() < 0.5 else p), q


def _zeros(rng, V):
  p, q = rng.dirichlet(np.ones(V), size=2)
  for law in (p, q):
    law[rng.permutation(V)[: rng.integers(1, V)]] = 0
  return p / p.sum(), q / q.sum()


def _equal(rng, V):
  law = _zeros(rng, V)[0] if rng.random() < 0.5 else _smooth(rng, V)[0]
  return law, law


def _nearly_equal(rng, V):
  p = rng.dirichlet(np.ones(V))
  q = p * (1 + 1e-6 * rng.normal(size=V))
  return p, q / q.sum()


def _disjoint(rng, V):
  p, q = rng.dirichlet(np.ones(V), size=2)
  cut = rng.integers(1, V)
  order = rng.permutation(V)
  p[order[:cut]] = 0
  q[order[cut:]] = 0
  return p / p.sum(), q / q.sum()


def _peaked(rng, V):
  """One token has nearly all the probability in p, in q, or in both."""
  laws = rng.dirichlet(np.ones(V), size=2)
  for index in rng.permutation(2)[: rng.integers(1, 3)]:
    law = laws[index]
    law *= 10.0 ** -rng.integers(3, 7)
    top = rng.integers(V)
    law[top] = 0
    law[top] = 1 - law.sum()
  return tuple(laws)


def _one_hot(rng, V):
  p, q = np.eye(V)[rng.integers(V, size=2)]
  return (p, q) if rng.random() < 0.5 else (_smooth(rng, V)[0], q)


KINDS = {
  "grid": _grid,
  "smooth": _smooth,
  "zeros": _zeros,
  "p = q": _equal,
  "p nearly q": _nearly_equal,
  "disjoint": _disjoint,
  "peaked": _peaked,
  "one-hot": _one_hot,
}


def generate(
  seed: int, count: int, V: int, contexts: int, kinds: Sequence[str] = ()
) -> list[World]:
  """Makes `count` worlds; the kinds take turns.

  Args:
    seed: Random seed.
    count: Number of worlds.
    V: Number of tokens.
    contexts: Number of contexts that can be asked for.
    kinds: Keys of `KINDS`, or "mixed", where each row has a random kind.
      Default: all `KINDS`, then "mixed".
  """
  worlds = []
  kinds = kinds or [*KINDS, "mixed"]
  for index in range(count):
    rng = np.random.default_rng([seed, index])
    kind = kinds[index % len(kinds)]
    rows = [
      KINDS[kind if kind != "mixed" else rng.choice(list(KINDS))](rng, V)
      for _ in range(min(contexts, ROWS))
    ]
    p, q = (np.stack(laws) for laws in zip(*rows, strict=True))
    worlds.append(of_rows(kind, p, q))
  return worlds
