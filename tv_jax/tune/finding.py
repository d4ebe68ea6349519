"""What a sample of cycles says of trees: the best, and those beside them."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

from tv_jax import tree as tree_lib
from tv_jax.edge import checks
from tv_jax.proposals import Proposal
from tv_jax.tree import Tree
from tv_jax.tune import calibrating, choosing, results, sequoia, timing
from tv_jax.tune.results import FAST, NAMED, SEQUOIA, TUNED, Row, Tuned
from tv_jax.tune.sampling import Sample
from tv_jax.tune.timing import Timed
from tv_jax.verifiers import Verifier, undefined

BUDGETS = (8, 16, 32, 64)
TREES = ("chain:5", "kary:2x5", "eagle")

# Prompts to fit the costs on, and then to time all on.
_FEW, _MANY = 3, 12

# `(trees by name, how many prompts) -> what they took`; None: plain decoding.
Clock = Callable[[Mapping[str, Tree | None], int], dict[str, Timed]]


class Wanted(NamedTuple):
  """What trees are asked for."""

  nodes: int
  depth: int
  budgets: tuple[int, ...]
  trees: dict[str, Tree]  # by name, to compare with


def wanted(
  nodes: int,
  depth: int,
  budgets: Sequence[int],
  trees: Sequence[str] | Mapping[str, Tree],
  verifier: Verifier,
) -> Wanted:
  """Checks what is asked for; see `tune`.

  Trees that the rule is not defined for are left out, and those that take shape
  as they are drafted: their places are no nodes.
  """
  for name, value in (
    ("nodes", nodes),
    ("depth", depth),
    *(("budgets", value) for value in budgets),
  ):
    checks.read(checks.integer(1), value, name)
  if not isinstance(trees, Mapping):
    trees = {name: tree_lib.resolve(name) for name in trees}
  known = {
    name: tree
    for name, tree in trees.items()
    if isinstance(tree, Tree) and not undefined(verifier, tree)
  }
  every = tuple(sorted({*map(int, budgets), int(nodes)}))
  return Wanted(int(nodes), int(depth), every, known)


def check_room(tree: Tree, ask: Wanted) -> None:
  """Refuses what no part of this tree can be."""
  most = int((tree.depth <= ask.depth).sum()) - 1
  if ask.nodes > most:
    raise ValueError(
      f"nodes={ask.nodes}: {tree!r} has {most} drafted nodes of depth"
      f" {ask.depth} or less: give fewer, or a larger depth"
    )


class Found:
  """What a sample says of all trees."""

  def __init__(
    self, sample: Sample, ask: Wanted, proposal: Proposal, verifier: Verifier
  ):
    """Splits the sample, and finds the best of each number of nodes."""
    self.sample, self.ask = sample, ask
    check_room(sample.tree, ask)
    self.tuning, self.others = sample.halves()
    self.best = choosing.best(sample.tree, self.tuning.mean, ask.depth)
    of = [
      f"{len(half.item)} cycles of {half.items} prompts"
      for half in (self.tuning, self.others)
    ]
    self.notes = [
      f"W of the nodes of {sample.tree!r}: predicted by {of[0]}, and on other"
      f" prompts by {of[1]}"
    ]
    if not proposal.nested:
      self.notes.append(
        f"{proposal.name} draws siblings by how many there are: W is that of"
        " the wide tree's families, and of smaller ones an approximation:"
        " believe what was decoded"
      )
    elif not verifier.by_path:
      self.notes.append(
        f"{verifier.name} may look at more than a node's own path: W of smaller"
        " trees may differ from that of the wide tree: believe what was decoded"
      )
    most = len(self.best) - 1
    self.rows = {}
    for count in ask.budgets:
      if count <= most:
        self.add(f"tuned:{count}", TUNED, nodes=self.best[count])
    model = sequoia.worth(sample.tree, self.tuning.mean)
    by_model = choosing.best(sample.tree, model, ask.depth)
    for count in ask.budgets:
      if count <= most:
        self.add(f"sequoia:{count}", SEQUOIA, nodes=by_model[count])
    for name, tree in ask.trees.items():
      self.add(name, NAMED, tree=tree)

  def add(self, name, kind, *, tree=None, nodes=None):
    """A row of a tree, or of the wide tree's part."""
    if nodes is None:
      nodes = choosing.places(self.sample.tree, tree)
    predicted = measured = gain = None
    if nodes is not None:
      tree = choosing.part(self.sample.tree, nodes)
      predicted, measured = (
        half.length(nodes) for half in (self.tuning, self.others)
      )
      gain = self.others.gain(nodes, self.best[self.ask.nodes])
    self.rows[name] = Row(
      name=name,
      kind=kind,
      tree=tree,
      predicted=predicted,
      measured=measured,
      gain=gain,
    )

  def result(self, said, clock=None) -> Tuned:
    """The trees; timed, if there is a clock."""
    asked = f"tuned:{self.ask.nodes}"
    fastest = plain = None
    if clock:
      fastest, plain = self.time(asked, clock)
    row = self.rows[asked]
    return Tuned(
      tree=row.tree,
      name=asked,
      fastest=fastest,
      rows=(*self.rows.values(),),
      plain=plain,
      off=results.difference(row.measured, row.predicted),
      check=self.sample.check,
      policy=calibrating.calibrate(self.tuning),
      how=said,
      notes=(*self.notes,),
    )

  def time(self, asked, clock) -> tuple[Tree, float]:
    """Times the trees to compare with, the asked one, and a candidate."""
    trees = {"plain": None} | {
      name: row.tree
      for name, row in self.rows.items()
      if row.kind == NAMED or name == asked
    }
    if len({tree.max_depth for tree in trees.values() if tree}) == 1:
      # Else what a level costs would not be known.
      short = f"chain:{max(1, self.ask.depth // 2)}"
      self.add(short, NAMED, tree=tree_lib.parse(short))
      trees[short] = self.rows[short].tree
    found = clock(trees, _FEW)
    cost = timing.fit([one for one in found.values() if one.tree])
    nodes = self.candidate(cost)
    tree = choosing.part(self.sample.tree, nodes)
    same = [name for name, one in trees.items() if one == tree]
    if not same:
      self.add(FAST, FAST, nodes=nodes)
      trees[FAST] = tree
    timed = clock(trees, _MANY)
    plain = timed.pop("plain").cost
    for name, one in timed.items():
      self.rows[name] = dataclasses.replace(
        self.rows[name], decoded=one.length, seconds=one.cost
      )
    first = max(timed, key=lambda name: self.rows[name].speed)
    over = self.rows[first].speed * plain
    self.notes.append(
      f"fastest here: {first}, {over:.2f} times plain decoding, of"
      f" {len(timed)} trees timed in turn; fitted: a cycle takes"
      f" {1e3 * cost.base:.2f} ms, {1e3 * cost.of_level:.2f} more a level,"
      f" {1e3 * cost.of_node:.3f} a node, {1e3 * cost.of_branching:.2f} if it"
      " branches"
    )
    if over < 1:
      self.notes.append("plain decoding is faster here than any of these trees")
    return self.rows[first].tree, plain

  def candidate(self, cost) -> list[int]:
    """The nodes that are thought to be fastest, by what cycles cost."""
    tree, mean = self.sample.tree, self.tuning.mean
    sets = [
      nodes
      for depth in range(1, self.ask.depth + 1)
      for nodes in choosing.best(tree, mean, depth)[1:]
    ]
    for depth in range(1, self.ask.depth + 1):
      sets.append(choosing.places(tree, tree_lib.chain(depth)))

    def speed(nodes):
      length = 1 + mean[nodes].sum()
      return length / cost(choosing.part(tree, nodes))

    return max(filter(None, sets), key=speed)
