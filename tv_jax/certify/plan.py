"""The trees and the worlds in which a rule or a program is tried.

A small vocabulary hides faults of late siblings and of long tails. So there are
3, 5 or 6, and 64 tokens, and the trees have every depth and number of siblings
of the trees in papers.
"""

from __future__ import annotations

import functools
import itertools
from collections.abc import Callable, Sequence
from typing import NamedTuple

from tv_jax import tree as tree_lib
from tv_jax.certify import worlds
from tv_jax.certify.report import Settings
from tv_jax.proposals import WITH_REPLACEMENT, Proposal
from tv_jax.tree import Tree

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


class Trial(NamedTuple):
  """The tree and the kind of laws of one case of a program."""

  tree: Tree | None  # None for a cycle
  V: int
  kind: str
  least: int  # minimum number of tokens that q can draw
  # The maximum number of tokens with a positive probability, see `Endless`.
  draft: Sequence[int] = ()
  target: Sequence[int] = ()
  needed: bool = False  # without this case no program is LOSSLESS


def told(trials: Sequence[Trial]) -> str:
  """Describes the trees of all cases."""
  trees = [trial.tree for trial in trials if trial.tree]
  depth = max(tree.max_depth for tree in trees)
  siblings = max(tree.max_children for tree in trees)
  return f"trees to depth {depth} and to {siblings} siblings, drawn"


def few(tree: Tree | None) -> Trial:
  """Returns a case of few tokens and simple fractions."""
  widest = tree.max_children if tree else 1
  return Trial(tree, 2 if widest <= 2 else widest + 1, "grid", widest)


def plan(
  cycle: bool,
  proposal: Proposal,
  asked: Tree | str | None,
  settings: Settings,
) -> list[Trial]:
  """Returns all cases of a program.

  Args:
    cycle: Whether the program drafts for itself.
    proposal: How the siblings that a verifier gets are drawn.
    asked: The tree that a verifier gets, or `CHAINS`; None: several trees.
    settings: How much to try.
  """
  count = settings.cases or 24
  names = [*itertools.islice(itertools.cycle(worlds.KINDS), count)]
  first, rest = names[: len(worlds.KINDS)], names[len(worlds.KINDS) :]

  def of(tree, V, names, **more):
    tree = None if cycle else tree_lib.resolve(tree or "kary:2x2")
    widest = tree.max_children if tree else 1
    V = worlds.tokens_for(widest, V)
    least = more.pop("least", widest)
    return [Trial(tree, V, name, least, **more) for name in names]

  chains = asked == CHAINS
  usual = "chain:2" if chains else asked
  if settings.vocabulary or (asked and not chains):
    what = usual, settings.vocabulary
    return of(*what, first, needed=True) + of(*what, rest)
  if chains or cycle:
    wide = of("chain:2", 5, first[:4], needed=True, draft=(5, 1))
  else:
    wide = _families(of, proposal)
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


def _families(of: Callable, proposal: Proposal) -> list[Trial]:
  """Returns cases for every depth and number of siblings of a usual tree.

  Each tree is large at a single place. Elsewhere few tokens can be drafted, so
  that few drafts are enumerated.
  """
  replaced = proposal == WITH_REPLACEMENT
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
