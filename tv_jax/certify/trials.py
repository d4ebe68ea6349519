"""The cases of a program's certificate: random laws, and trees.

A small vocabulary hides faults of late siblings and of long tails. So the cases
have 3, 5 and 64 tokens, and their trees every depth and number of siblings of
the trees in papers.
"""

from __future__ import annotations

import dataclasses
import functools
import itertools
from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np

from tv_jax import proposals
from tv_jax import tree as tree_lib
from tv_jax.certify import worlds
from tv_jax.certify.contracts import CONTEXT, Settings, fixed_tree
from tv_jax.io.errors import UserError
from tv_jax.proposals import WITH_REPLACEMENT
from tv_jax.tree import Tree

# The value of `--trees` that asks for several chains.
CHAINS = "chain"
WIDE = 64  # the largest vocabulary, beyond a cut to the 50 likeliest
# Kept here because numpy.random has stand-ins while a program runs.
_GENERATOR, _BITS = np.random.Generator, np.random.PCG64


@dataclasses.dataclass(eq=False)
class Laws:
  """The target's or the draft's law after any prefix, made on demand.

  Attributes:
    kind: A key of `worlds.KINDS`.
    V: Number of tokens.
    seed: Seed of the target's and the draft's laws together.
    which: 0 for the target's laws, 1 for the draft's.
    least: Minimum number of tokens with a positive probability.
    most: Maximum number of tokens with a positive probability, at depth 0, 1,
      ..; the last entry holds for all greater depths. Empty: V.
    known: The laws that were asked for.
  """

  kind: str
  V: int
  seed: tuple[int, ...]
  which: int
  least: int = 1
  most: Sequence[int] = ()
  known: dict[tuple, np.ndarray] = dataclasses.field(default_factory=dict)

  def __call__(self, prefix: Sequence[int]) -> np.ndarray:
    """Returns the law [V] of the token after a prefix."""
    prefix = tuple(map(int, prefix))
    if prefix[: len(CONTEXT)] != CONTEXT:
      raise UserError(
        f"asked for the law after {list(prefix)}: prefixes begin with the"
        f" context {list(CONTEXT)}"
      )
    if prefix not in self.known:
      rng = _GENERATOR(_BITS([*self.seed, *prefix, len(prefix)]))
      law = worlds.KINDS[self.kind](rng, self.V)[self.which]
      if np.count_nonzero(law) < self.least:
        law = (law + 0.25) / (1 + 0.25 * self.V)
      limits, depth = self.most or (self.V,), len(prefix) - len(CONTEXT)
      most = limits[min(depth, len(limits) - 1)]
      law[np.argsort(law)[:-most]] = 0
      law /= law.sum() if most < self.V else 1
      self.known[prefix] = law
    return self.known[prefix].copy()


class Trial(NamedTuple):
  """The tree and the kind of laws of one case."""

  tree: Tree | None  # None for a cycle
  V: int
  kind: str
  least: int  # minimum number of tokens that q can draw
  # The maximum number of tokens with a positive probability, see `Laws`.
  draft: Sequence[int] = ()
  target: Sequence[int] = ()
  needed: bool = False  # without this case no program is LOSSLESS


def told(trials: Sequence[Trial]) -> str:
  """Describes the trees of all cases."""
  trees = [trial.tree for trial in trials if trial.tree]
  depth = max(tree.max_depth for tree in trees)
  siblings = max(tree.max_children for tree in trees)
  return f"trees to depth {depth} and to {siblings} siblings, drawn"


def plan(cycle: bool, settings: Settings) -> list[Trial]:
  """Returns all cases."""
  names = [*itertools.islice(itertools.cycle(worlds.KINDS), settings.cases)]
  first, rest = names[: len(worlds.KINDS)], names[len(worlds.KINDS) :]

  def of(tree, V, names, **more):
    tree = None if cycle else fixed_tree(tree)
    widest = tree.max_children if tree else 1
    V = worlds.tokens_for(widest, V)
    least = more.pop("least", widest)
    return [Trial(tree, V, name, least, **more) for name in names]

  chains = settings.tree == CHAINS
  usual = "chain:2" if chains else settings.tree
  if settings.vocabulary or (settings.tree and not chains):
    asked = usual, settings.vocabulary
    return of(*asked, first, needed=True) + of(*asked, rest)
  if chains or cycle:
    wide = of("chain:2", 5, first[:4], needed=True, draft=(5, 1))
  else:
    wide = _families(of, settings)
  if not cycle:
    # Few drafts: with all coins drawn at once, each has 2^5 outcomes.
    for draft in ((2, 1, 2, 1, 2), (1, 2, 1, 2, 1)):
      wide += of("chain:5", 4, ["smooth"], needed=True, draft=draft)
  # All 64 tokens are possible at one depth of the target or of the draft, and
  # few elsewhere: a program may also draw from rows that it does not use. With
  # p nearly q both keep the same few tokens, so that a draft is accepted. A
  # verifier of a chain of one token has no third row.
  long = functools.partial(of, "chain:1", WIDE, needed=True)
  targets = (WIDE, 2), (2, WIDE, 2), (2, 2, WIDE)
  return [
    *of(usual, 3, first, needed=True),
    *wide,
    *(
      x
      for most in targets[: 2 + cycle]
      for x in long(["p nearly q"], draft=(2, 1), target=most)
    ),
    *long(["smooth"], draft=(WIDE, 1), target=(2,)),
    *of(usual, 3, rest),
  ]


def _families(of: Callable, settings: Settings) -> list[Trial]:
  """Returns cases for every depth and number of siblings of a usual tree.

  Each tree is large at a single place. Elsewhere few tokens can be drafted, so
  that few drafts are enumerated.
  """
  replaced = proposals.resolve(settings.proposal) == WITH_REPLACEMENT
  four, three, two = (3, 3, 3) if replaced else (5, 4, 3)

  def below(node, siblings):
    """A chain to a node, and siblings below it."""
    return tree_lib.from_parents([*range(-1, node), *[node] * siblings])

  trees = [
    ("branching:4", (four,), (5, 2)),
    (below(1, 3), (1, three), (5, 5, 2)),
    (below(2, 3), (1, 1, three), (5, 5, 5, 2)),
    (below(3, 3), (1, 1, 1, three), (5, 5, 5, 5, 2)),
    (below(4, 2), (1, 1, 1, 1, two), (5, 5, 5, 5, 5, 2)),
    # A chain below the last of four siblings.
    (tree_lib.from_parents([-1, 0, 0, 0, 0, 4, 5, 6, 7]), (4, 1), (5, 3)),
    # A chain where each node has a sibling.
    (tree_lib.from_parents([-1, 0, 0, 2, 2, 4, 4, 6, 6, 8, 8]), (2,), (3,)),
  ]
  return [
    trial
    for tree, draft, target in trees
    for trial in of(
      tree, 5, ["smooth"] * 2, least=1, needed=True, draft=draft, target=target
    )
  ]
