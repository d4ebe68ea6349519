"""The trees and the worlds in which a rule or a program is tried.

A small vocabulary hides faults of late siblings and of long tails. So there are
3 to 6 tokens and 64, and the trees have every depth and number of siblings of
the trees in papers.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from tv_jax import tree as tree_lib
from tv_jax.certify import drafts, worlds
from tv_jax.certify.report import Settings
from tv_jax.certify.worlds import World
from tv_jax.proposals import WITH_REPLACEMENT, Proposal
from tv_jax.tree import ROOT, Tree

# The default trees of rules, and the number of tokens on each.
USUAL = {
  "chain:5": 3,
  "parents:0,0,2,2,4,4": 3,  # second children of second children
  "branching:4": 6,
  "parents:0,0,0,2,3,3,3,3,7,8": 6,  # four children of a third child
  "chain:1": 64,  # tests rules that keep only the likeliest tokens
  "eagle": 6,  # all drafts of draft models with few likely tokens
}
# The value of `--trees` that asks for several chains.
CHAINS = "chain"
WIDE = 64  # the largest vocabulary, beyond a cut to the 50 likeliest
SMALL = 6  # largest number of nodes for which all patterns of coins are tried
# Maximum number of decisions in a world whose drafts are all enumerated; and of
# drafts in a thinned world, and in a world that is made to reach a family.
BUDGET, _THIN, _REACH = 300_000, 100, 700


class Trial(NamedTuple):
  """The tree and the world of one case of a program."""

  tree: Tree | None  # None for a cycle
  world: World


def coins_low(tree: Tree) -> np.ndarray:
  """Returns the patterns of coins that are tried with a rule on a tree.

  Returns:
    [E, N] whether a coin is 0; the others are just under 1.
  """
  if len(tree) <= SMALL:
    every = itertools.product((True, False), repeat=len(tree) - 1)
    return np.array([(False, *rest) for rest in every])
  low = np.array(tree.ancestors, bool)
  low[:, ROOT] = False
  return low


def of_rule(proposal: Proposal, tree: Tree, settings: Settings) -> list[World]:
  """Returns the worlds of a rule; they are thinned if drafts are many."""
  V, count = settings.tokens(tree), settings.cases or 27
  contexts = worlds.num_contexts(V, tree.max_depth)
  made = worlds.generate(settings.seed, count, V, contexts)
  patterns = len(coins_low(tree))
  if (
    max(V**tree.max_children, contexts * V) <= BUDGET
    and drafts.count_outcomes(tree, proposal, V) * patterns <= BUDGET
  ):
    return made
  # All kinds of worlds, thinned; then worlds that are made to reach a family.
  families = tree.inner.tolist()
  aims = [(ROOT, _THIN)] * count + [(node, _REACH) for node in families]
  made += worlds.generate(
    settings.seed + 1, len(families), V, contexts, ["smooth"]
  )
  return [
    drafts.thin(i, tree, proposal, world, *aim)
    for i, (world, aim) in enumerate(zip(made, aims, strict=True))
  ]


def few(tree: Tree | None, seed: int) -> list[World]:
  """Returns worlds of few tokens and simple fractions."""
  widest = tree.max_children if tree else 1
  V = 2 if widest <= 2 else widest + 1
  seeds = ((seed, i, V) for i in range(8))
  return [worlds.on_demand("grid", V, x, least=widest) for x in seeds]


def of_program(
  cycle: bool,
  proposal: Proposal,
  asked: Tree | str | None,
  settings: Settings,
) -> tuple[list[Trial], int]:
  """Returns all cases of a program, and how many it needs to be LOSSLESS.

  Args:
    cycle: Whether the program drafts for itself.
    proposal: How the siblings that a verifier gets are drawn.
    asked: The tree that a verifier gets, or `CHAINS`; None: several trees.
    settings: How much to try.
  """
  count, numbers = settings.cases or 24, itertools.count()
  kinds = [*itertools.islice(itertools.cycle(worlds.KINDS), count)]
  first, rest = kinds[: len(worlds.KINDS)], kinds[len(worlds.KINDS) :]

  def of(tree, V, kinds, **limits):
    tree = None if cycle else tree_lib.resolve(tree or "kary:2x2")
    widest = tree.max_children if tree else 1
    V = worlds.tokens_for(widest, V)
    limits = {"least": widest, **limits}
    seeds = ((settings.seed, next(numbers), V) for _ in kinds)
    return [
      Trial(tree, worlds.on_demand(kind, V, seed, **limits))
      for kind, seed in zip(kinds, seeds, strict=True)
    ]

  chains = asked == CHAINS
  usual = "chain:2" if chains else asked
  if settings.vocabulary or (asked and not chains):
    made = of(usual, settings.vocabulary, first)
    return made + of(usual, settings.vocabulary, rest), len(made)
  made = of(usual, 3, first)
  if chains or cycle:
    made += of("chain:2", 5, first[:4], draft=(5, 1))
  else:
    # With replacement, siblings are more.
    replaced = proposal == WITH_REPLACEMENT
    for tree, draft, target in _FAMILIES:
      draft = [min(x, 3) for x in draft] if replaced else draft
      made += of(tree, 5, ["smooth"] * 2, least=1, draft=draft, target=target)
  if not cycle:
    # Few drafts: with all coins drawn at once, each has 2^5 outcomes.
    for draft in ((2, 1, 2, 1, 2), (1, 2, 1, 2, 1)):
      made += of("chain:5", 4, ["smooth"], draft=draft)
  # All 64 tokens are possible at one depth of the target or of the draft, and
  # few elsewhere: a program may also draw from rows that it does not use. With
  # p nearly q both keep the same few tokens, so that a draft is accepted. A
  # verifier of a chain of one token has no third row.
  for target in ((WIDE, 2), (2, WIDE, 2), (2, 2, WIDE))[: 2 + cycle]:
    made += of("chain:1", WIDE, ["p nearly q"], draft=(2, 1), target=target)
  made += of("chain:1", WIDE, ["smooth"], draft=(WIDE, 1), target=(2,))
  return made + of(usual, 3, rest), len(made)


def _below(node: int, siblings: int) -> Tree:
  """Returns a chain to a node, and siblings below it."""
  return tree_lib.from_parents([*range(-1, node), *[node] * siblings])


# Every depth and number of siblings of a usual tree. Each tree is large at a
# single place. Elsewhere few tokens can be drafted, so that few drafts are
# enumerated: the limits of the draft and of the target, see `worlds.on_demand`.
_FAMILIES = (
  ("branching:4", (5,), (5, 2)),
  (_below(1, 3), (1, 4), (5, 5, 2)),
  (_below(2, 3), (1, 1, 4), (5, 5, 5, 2)),
  (_below(3, 3), (1, 1, 1, 4), (5, 5, 5, 5, 2)),
  (_below(4, 2), (1, 1, 1, 1, 3), (5, 5, 5, 5, 5, 2)),
  # A chain below the last of four siblings.
  (tree_lib.from_parents([-1, 0, 0, 0, 0, 4, 5, 6, 7]), (4, 1), (5, 3)),
  # A chain where each node has a sibling.
  (tree_lib.from_parents([-1, 0, 0, 2, 2, 4, 4, 6, 6, 8, 8]), (2,), (3,)),
)


def told(trials: Sequence[Trial]) -> str:
  """Describes the trees of all cases."""
  trees = [trial.tree for trial in trials if trial.tree]
  depth = max(tree.max_depth for tree in trees)
  siblings = max(tree.max_children for tree in trees)
  return f"trees to depth {depth} and to {siblings} siblings, drawn"
