"""Measure a program of the gallery, exactly, by `certify.explore`."""

import dataclasses
import functools
import itertools
import types
from collections.abc import Callable

import numpy as np

from examples.faults import common
from tv_jax import certify

V = 3
LENGTH = common.DEPTH + 1  # a cycle emits no more
# two drafts, and two more below the first
TREE = types.SimpleNamespace(parents=(-1, 0, 0, 1, 1))
EXACT = 1e-12

Law = Callable[[tuple[int, ...]], np.ndarray]


def random_law(seed: int) -> Law:
  """Draw a law for each prefix."""
  dice = np.random.default_rng(seed)
  laws = {one: dice.dirichlet(np.full(V, 0.7)) for one in prefixes(LENGTH)}
  return laws.__getitem__


def without_rarest(p: Law) -> Law:
  """Forbid each prefix's least likely token, as top-k does."""

  def law(prefix):
    kept = p(prefix)
    kept = np.where(kept == kept.min(), 0, kept)
    return kept / kept.sum()

  return law


def half(p: Law, other: Law) -> Law:
  """Mix two laws: a draft is like its target."""
  return lambda prefix: (p(prefix) + other(prefix)) / 2


def nearly(p: Law) -> Law:
  """Move a law by some billionths."""

  def law(prefix):
    moved = p(prefix) * (1 + np.array([4e-9, -4e-9, 0]))
    return moved / moved.sum()

  return law


def random_pairs() -> list[tuple[Law, Law]]:
  """Give four targets, and drafts that are half like them."""
  laws = [(random_law(i), random_law(100 + i)) for i in range(4)]
  return [(p, half(p, other)) for p, other in laws]


def hard_pairs() -> list[tuple[Law, Law]]:
  """Give a target that forbids tokens, and a draft that is nearly right."""
  p = random_law(4)
  return [(without_rarest(p), half(p, random_law(104))), (p, nearly(p))]


def on_tree(verify, p, q, context, rng):
  """Make a cycle of a verifier: draw siblings without replacement."""
  tokens: list = [None] * len(TREE.parents)
  prefixes = [context] * len(tokens)
  for node, parent in enumerate(TREE.parents):
    if node:
      prefixes[node] = (*prefixes[parent], tokens[node])
    family = common.children(TREE, node)
    law = q(prefixes[node])
    drawn = rng.choice(V, size=len(family), replace=False, p=law)
    for child, token in zip(family, drawn, strict=True):
      tokens[child] = int(token)
  rows = [[law(prefix) for prefix in prefixes] for law in (q, p)]
  path, token = verify(TREE, tokens, *rows, rng)
  return [*(tokens[node] for node in path), token]


@dataclasses.dataclass(frozen=True)
class Measured:
  """What is true of a cycle, with one pair of laws.

  Attributes:
    distance: Total variation of the first LENGTH tokens' law, the cycle's and
      then the target's, from the target's.
    tokens: The mean number that a cycle emits.
    edges: What is emitted only where a uniform is exactly 0.
    wrong: A prefix, the token that comes too often after it, by how much, and
      its right chance; None if there is none.
  """

  distance: float
  tokens: float
  edges: tuple
  wrong: tuple[tuple[int, ...], int, float, float] | None


def measure(program, kind: str, p: Law, q: Law) -> Measured:
  """Find the exact law of a cycle's output, and compare it."""
  cycle = functools.partial(on_tree, program) if kind == "verify" else program

  def run(rng):
    return cycle(p, q, (), rng)

  law = certify.explore(run, least=0.0)
  if law.unexplored:
    raise ValueError(f"{float(law.unexplored)} was not explored")
  outs: dict = law.chances
  emitted = {out: float(chance) for out, chance in outs.items()}
  reached = dict.fromkeys(prefixes(LENGTH), 0.0)
  for out, chance in emitted.items():
    for i in range(len(out) + 1):
      reached[out[:i]] += chance
    spread(out, chance, p, reached)
  target: dict = {(): 1.0}
  spread((), 1.0, p, target)
  ends = itertools.product(range(V), repeat=LENGTH)
  return Measured(
    distance=sum(abs(reached[end] - target.get(end, 0.0)) for end in ends) / 2,
    tokens=sum(len(out) * chance for out, chance in emitted.items()),
    edges=law.edges,
    wrong=first_wrong(reached, p),
  )


def prefixes(length: int):
  """List all prefixes, the shorter first."""
  for size in range(length + 1):
    yield from itertools.product(range(V), repeat=size)


def spread(prefix, chance: float, p: Law, reached: dict):
  """Go on from a prefix by the target's law."""
  if len(prefix) < LENGTH:
    for token, share in enumerate(p(prefix)):
      after = (*prefix, token)
      reached[after] = reached.get(after, 0.0) + chance * float(share)
      spread(after, chance * float(share), p, reached)


def first_wrong(reached: dict, p: Law):
  """Find the token that comes too often after the shortest wrong prefixes."""
  for size in range(LENGTH):
    found = []
    for prefix in itertools.product(range(V), repeat=size):
      for token, right in enumerate(p(prefix)):
        chance = reached[(*prefix, token)]
        excess = chance - reached[prefix] * right
        found.append((excess, prefix, token, float(right)))
    excess, prefix, token, right = max(found)
    if excess > EXACT:
      return prefix, token, excess / reached[prefix], right
  return None
