"""What a sample of cycles says of trees: the best, and those beside them."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

from tv_jax import tree as tree_lib
from tv_jax.edge import checks
from tv_jax.proposals import Proposal
from tv_jax.tree import Adaptive, Tree
from tv_jax.tune import choosing, sampling, timing
from tv_jax.tune.results import FAST, NAMED, SEQUOIA, TUNED, Row, Tuned
from tv_jax.tune.sampling import Sample
from tv_jax.tune.timing import Timed
from tv_jax.verifiers import Verifier

BUDGETS = (8, 16, 32, 64)
TREES = ("chain:5", "kary:2x5", "eagle")

# On so many prompts costs are fitted, and then all trees are timed.
_FEW, _MANY = 3, 12

# `(trees by name, how many prompts) -> what they took`; None: plain decoding.
Clock = Callable[[Mapping[str, Tree | None], int], dict[str, Timed]]


class Wanted(NamedTuple):
  """What trees are asked for."""

  nodes: int
  depth: int
  budgets: tuple[int, ...]  # ascending, `nodes` among them
  trees: dict[str, Tree]  # by name, to compare with


def wanted(
  nodes: int,
  depth: int,
  budgets: Sequence[int],
  trees: Sequence[str] | Mapping[str, Tree],
  verifier: Verifier,
) -> Wanted:
  """Checks what is asked for; see `tune`.

  Adaptive trees are left out, which have no fixed nodes, and trees that the
  rule is not defined for.
  """
  counts = checks.fields(
    {
      "nodes": checks.integer(least=1),
      "depth": checks.integer(least=1),
      "budgets": checks.list_of(checks.integer(least=1)),
    }
  )
  asked = checks.read(
    counts, {"nodes": nodes, "depth": depth, "budgets": budgets}
  )
  if isinstance(trees, Mapping):
    named: Mapping[str, Tree | Adaptive] = trees
  else:
    named = {name: tree_lib.resolve(name) for name in trees}
  asked["budgets"] = (*sorted({*asked["budgets"], asked["nodes"]}),)
  asked["trees"] = {
    name: tree
    for name, tree in named.items()
    if isinstance(tree, Tree) and not verifier.refuses(tree)
  }
  return Wanted(**asked)


def check_room(tree: Tree, ask: Wanted) -> None:
  """Refuses more nodes than the tree has at this depth."""
  most = int((tree.depth <= ask.depth).sum()) - 1
  if ask.nodes > most:
    raise ValueError(
      f"nodes={ask.nodes}: {tree!r} has {most} drafted nodes of depth"
      f" {ask.depth} or less: give fewer, or a larger depth"
    )


class Found:
  """Rows of trees, by name, as they are found in a sample."""

  def __init__(
    self, sample: Sample, ask: Wanted, proposal: Proposal, verifier: Verifier
  ):
    """Splits the sample, and finds the best trees of each number of nodes."""
    self.sample, self.ask = sample, ask
    check_room(sample.tree, ask)
    self.tuning, self.others = sample.halves()
    self.best = choosing.best(sample.tree, self.tuning.mean, ask.depth)
    self.notes = [_about(sample.tree, self.tuning, self.others)]
    self.notes += _cautions(proposal, verifier)
    self.rows: dict[str, Row] = {}
    model = choosing.sequoia(sample.tree, self.tuning.mean)
    by_model = choosing.best(sample.tree, model, ask.depth)
    for kind, sets in ((TUNED, self.best), (SEQUOIA, by_model)):
      for count in ask.budgets:
        if count < len(sets):
          self.add_part(f"{kind}:{count}", kind, sets[count])
    for name, tree in ask.trees.items():
      self.add_named(name, tree)

  def add_part(self, name: str, kind: str, nodes: list[int]) -> None:
    """Adds the tree of some of the sample's nodes."""
    self.rows[name] = Row(
      name=name,
      kind=kind,
      tree=choosing.part(self.sample.tree, nodes),
      predicted=self.tuning.length(nodes),
      measured=self.others.length(nodes),
      gain=self.others.gain(nodes, self.best[self.ask.nodes]),
    )

  def add_named(self, name: str, tree: Tree) -> None:
    """Adds a tree to compare with; not every one is part of the sample's."""
    nodes = choosing.places(self.sample.tree, tree)
    if nodes is None:
      self.rows[name] = Row(name=name, kind=NAMED, tree=tree)
    else:
      self.add_part(name, NAMED, nodes)

  def result(self, said: dict, clock: Clock | None = None) -> Tuned:
    """Gathers all rows; they are timed first, if there is a clock.

    Args:
      said: What files say besides the trees.
      clock: Times trees.
    """
    name = f"{TUNED}:{self.ask.nodes}"
    fastest, plain = self.time(name, clock) if clock else (None, None)
    return Tuned(
      tree=self.rows[name].tree,
      name=name,
      fastest=fastest,
      rows=(*self.rows.values(),),
      plain=plain,
      check=self.sample.check,
      policy=sampling.calibrate(self.tuning),
      how=said,
      notes=(*self.notes,),
    )

  def time(self, asked: str, clock: Clock) -> tuple[Tree, float]:
    """Times the trees to compare with, the asked one, and a candidate.

    Returns:
      The fastest tree, and the seconds of a token of plain decoding.
    """
    named = [row for row in self.rows.values() if row.kind == NAMED]
    if len({row.tree.max_depth for row in [*named, self.rows[asked]]}) == 1:
      # Else what a level costs could not be fitted.
      short = f"chain:{max(1, self.ask.depth // 2)}"
      self.add_named(short, tree_lib.chain(max(1, self.ask.depth // 2)))
    trees: dict[str, Tree | None] = {"plain": None} | {
      name: row.tree
      for name, row in self.rows.items()
      if row.kind == NAMED or name == asked
    }
    found = clock(trees, _FEW)
    cost = timing.fit(
      [(tree, found[name].cost) for name, tree in trees.items() if tree]
    )
    nodes = self._candidate(cost)
    if choosing.part(self.sample.tree, nodes) not in trees.values():
      self.add_part(FAST, FAST, nodes)
      trees[FAST] = self.rows[FAST].tree
    timed = clock(trees, _MANY)
    plain = timed.pop("plain").cost
    for name, one in timed.items():
      self.rows[name] = dataclasses.replace(
        self.rows[name], decoded=one.length, seconds=one.cost
      )
    first = max((self.rows[name] for name in timed), key=lambda row: row.speed)
    over = first.speed * plain
    self.notes.append(
      f"fastest here: {first.name}, {over:.2f} times plain decoding, of"
      f" {len(timed)} trees timed in turn; fitted: a cycle takes"
      f" {1e3 * cost.base:.2f} ms, {1e3 * cost.of_level:.2f} more a level,"
      f" {1e3 * cost.of_node:.3f} a node, {1e3 * cost.of_branching:.2f} if it"
      " branches"
    )
    if over < 1:
      self.notes.append("plain decoding is faster here than any of these trees")
    return first.tree, plain

  def _candidate(self, cost: timing.Cost) -> list[int]:
    """Returns the nodes that should be fastest, by what cycles cost."""
    tree, mean = self.sample.tree, self.tuning.mean
    sets = []
    for depth in range(1, self.ask.depth + 1):
      sets += choosing.best(tree, mean, depth)[1:]
      if chain := choosing.places(tree, tree_lib.chain(depth)):
        sets.append(chain)

    def speed(nodes):
      return (1 + mean[nodes].sum()) / cost(choosing.part(tree, nodes))

    return max(sets, key=speed)


def _about(tree: Tree, *halves: Sample) -> str:
  tuning, others = (
    f"{len(half.item)} cycles of {len({*half.item})} prompts" for half in halves
  )
  return (
    f"wide tree: {tree!r}; tuned on {tuning}, measured on {others} (the other"
    " ones)"
  )


def _cautions(proposal: Proposal, verifier: Verifier) -> list[str]:
  """Says why W of a smaller tree may be another."""
  if not proposal.nested:
    return [
      f"{proposal.name} draws siblings by how many there are: for families"
      " smaller than the wide tree's these lengths are approximations; trust"
      " the decoded ones"
    ]
  if not verifier.by_path:
    return [
      f"{verifier.name} may use more than a node's own path: for trees smaller"
      " than the wide one these lengths are approximations; trust the decoded"
      " ones"
    ]
  return []
