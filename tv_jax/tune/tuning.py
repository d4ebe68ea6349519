"""Tune: the best tree for a pair, a rule and a machine."""

from __future__ import annotations

import dataclasses
import datetime
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import jax
import numpy as np

from tv_jax import tree as tree_lib
from tv_jax import verifiers
from tv_jax.edge import reading
from tv_jax.engine.config import decode_config
from tv_jax.engine.generate import decode_all
from tv_jax.engine.pair import Pair
from tv_jax.engine.prompts import read_prompts
from tv_jax.tree import Tree
from tv_jax.tune import choosing, sampling, timing
from tv_jax.tune.results import FAST, NAMED, SEQUOIA, TUNED, Row, Tuned
from tv_jax.verifiers import Decide, Verifier

BUDGETS = (8, 16, 32, 64)
TREES = ("chain:5", "kary:2x5", "eagle")

# The wide tree has at least about so many nodes, and more than are asked for.
# With fewer there is little to choose from.
_LEAST, _TIMES = 64, 1.2
# On so many prompts costs are fitted, and then all trees are timed.
_FEW, _MANY = 3, 12


def tune(
  pair: Pair,
  prompts: Sequence[str | Sequence[int]],
  *,
  nodes: int = 25,
  depth: int = 5,
  verifier: Verifier | Decide | str = "traversal",
  budgets: Sequence[int] = BUDGETS,
  trees: Sequence[str] | Mapping[str, Tree] = TREES,
  template: str = "raw",
  max_new_tokens: int = 32,
  speed: bool = True,
  say: Callable[[str], None] = lambda line: None,
  **options,
) -> Tuned:
  """Finds the best tree for a pair, and the fastest here.

  Args:
    pair: What `tv_jax.load` returned.
    prompts: At least 4, no two alike. Every other one is tuned on; lengths are
      measured on the rest.
    nodes: How many drafted nodes the tree has, without the root.
    depth: How many levels it has at most.
    verifier: The rule, as in `generate`.
    budgets: More numbers of nodes to find the best trees for.
    trees: Trees to compare with, by name; those of no fixed nodes, or not for
      the rule, are left out.
    template: How strings become tokens.
    max_new_tokens: For each prompt.
    speed: Whether to time trees, and to find the fastest.
    say: Called with a line at each step.
    **options: More of `generate`'s: proposal, temperature, seed, batch_size, ..

  Returns:
    The trees, with their lengths and speeds.

  Raises:
    ValueError: Something that was asked for is wrong.
  """
  budgets = sorted({*budgets, nodes})
  if min(depth, *budgets) < 1:
    raise ValueError(
      f"nodes={nodes}, depth={depth}, budgets={budgets}: give 1 or more"
    )
  rule = verifiers.resolve(verifier)
  others: Mapping = (
    trees
    if isinstance(trees, Mapping)
    else {name: tree_lib.resolve(name) for name in trees}
  )
  named = {
    name: tree
    for name, tree in others.items()
    if isinstance(tree, Tree) and not rule.refuses(tree)
  }
  wide = choosing.wide(
    max(_LEAST, round(_TIMES * budgets[-1])),
    depth,
    # A tree that is far larger than all that is asked for is only run.
    [tree for tree in named.values() if len(tree) <= 2 * _LEAST],
  )
  if rule.refuses(wide):
    wide = tree_lib.chain(wide.max_depth)
  most = int((wide.depth <= depth).sum()) - 1
  if nodes > most:
    raise ValueError(
      f"nodes={nodes}: {wide!r} has {most} drafted nodes of depth {depth} or"
      " less: give fewer, or a larger depth"
    )
  options |= {"verifier": verifier, "max_new_tokens": max_new_tokens}
  config = decode_config(pair, tree=wide, trace=max_new_tokens, **options)
  read = read_prompts(pair, config, prompts, template=template)
  if len(read) < 4 or len({tuple(one.tokens) for one in read}) < len(read):
    raise ValueError(
      f"{len(read)} prompts: give 4 or more, no two the same: half to tune on"
      " and half to measure on"
    )
  say(f"decoding {len(read)} prompts with {wide!r}")
  run = decode_all(pair, config, read)
  found = _Search(wide, depth, *sampling.of_run(run).halves())
  found.base = found.best[nodes]
  model = choosing.sequoia(wide, found.tuning.mean)
  for kind, sets in (
    (TUNED, found.best),
    (SEQUOIA, choosing.best(wide, model, depth)),
  ):
    for count in budgets:
      if count < len(sets):
        found.add(f"{kind}:{count}", kind, choosing.part(wide, sets[count]))
  for name, tree in named.items():
    found.add(name, NAMED, tree)
  assert config.proposal
  assert pair.draft
  notes = [
    f"wide tree: {wide!r}; tuned on {found.tuning}, measured on {found.others}"
    " (the other ones)"
  ]
  if not (config.proposal.nested and rule.by_path):
    notes.append(
      f"with {config.proposal.name} and {rule.name} a node's worth may depend"
      " on the rest of the tree: lengths of smaller trees are approximations;"
      " trust the decoded ones"
    )
  name, plain = f"{TUNED}:{nodes}", None
  if speed:

    def clock(trees: Mapping[str, Tree | None], count: int):
      """Times trees on some of the prompts that none was tuned on."""
      items = [*np.unique(found.others.item)]
      some = items[:: max(1, len(items) // count)][:count]
      say(f"timing {', '.join(trees)}, in turn on {len(some)} prompts")
      single: dict[str, Any] = options | {"batch_size": 1, "panel": None}
      plain = single | {"verifier": None, "proposal": "without_replacement"}

      def config_of(tree: Tree | None):
        chosen: dict[str, Any] = single | {"tree": tree} if tree else plain
        return decode_config(pair, **chosen)

      configs = {name: config_of(tree) for name, tree in trees.items()}
      return timing.measure(pair, configs, [read[int(item)] for item in some])

    plain, note = found.time(name, clock)
    notes.append(note)
  return Tuned(
    name=name,
    rows=found.rows,
    plain=plain,
    check=run.check,
    settings={
      "verifier": config.name,
      "proposal": config.proposal.name,
      "temperature": config.temperature,
      # A proposal that only ranks draws at none.
      "draft_temperature": None
      if config.proposal.ranks
      else config.draft_temperature,
      "draft_stop": config.draft_stop,
      "target": reading.name_of(pair.target.source),
      "draft": reading.name_of(pair.draft.source),
      "device": jax.devices()[0].device_kind,
      "date": datetime.date.today().isoformat(),
    },
    notes=(*notes,),
  )


class _Search:
  """Rows of trees, by name, as they are found in two samples of a wide one."""

  def __init__(self, tree, depth, tuning, others):
    """Finds the best nodes of each number."""
    self.tree, self.depth = tree, depth
    self.tuning, self.others = tuning, others
    self.best = choosing.best(tree, tuning.mean, depth)
    self.rows: dict[str, Row] = {}
    self.base: list[int] = []

  def add(self, name: str, kind: str, tree: Tree) -> None:
    """Adds a tree; not every one is part of the wide tree."""
    row = Row(name=name, kind=kind, tree=tree)
    nodes = choosing.places(self.tree, tree)
    if nodes is not None:
      row = dataclasses.replace(
        row,
        predicted=self.tuning.length(nodes),
        measured=self.others.length(nodes),
        gain=self.others.gain(nodes, self.base),
      )
    self.rows[name] = row

  def time(self, asked: str, clock) -> tuple[float, str]:
    """Times the trees to compare with, the asked one, and a candidate.

    Args:
      asked: The asked tree's name.
      clock: `(trees by name, how many prompts) -> what they took`, by name;
        no tree is plain decoding.

    Returns:
      The seconds of a token of plain decoding, and what to know.
    """
    compared = [
      row
      for row in self.rows.values()
      if row.kind == NAMED or row.name == asked
    ]
    if len({row.tree.max_depth for row in compared}) == 1:
      # Else what a level costs could not be fitted.
      half = tree_lib.chain(max(1, self.depth // 2))
      self.add(f"chain:{half.max_depth}", NAMED, half)
      compared.append(self.rows[f"chain:{half.max_depth}"])
    trees = {row.name: row.tree for row in compared}
    timed = clock({"plain": None} | trees, _FEW)
    cost = timing.fit(
      [(tree, timed[name].cost) for name, tree in trees.items()]
    )
    candidate = self.candidate(cost)
    if candidate not in trees.values():
      self.add(FAST, FAST, candidate)
      trees[FAST] = candidate
    timed = clock({"plain": None} | trees, _MANY)
    plain = timed.pop("plain").cost
    for name, row in timed.items():
      self.rows[name] = dataclasses.replace(
        self.rows[name], decoded=row.length, seconds=row.cost
      )
    first = max((self.rows[name] for name in timed), key=lambda row: row.speed)
    return plain, (
      f"fastest here: {first.name}, {first.speed * plain:.2f} times plain"
      f" decoding, of {len(timed)} trees timed in turn; fitted: a cycle takes"
      f" {1e3 * cost.base:.2f} ms, {1e3 * cost.of_level:.2f} more a level,"
      f" {1e3 * cost.of_node:.3f} a node, {1e3 * cost.of_branching:.2f} if it"
      " branches"
    )

  def candidate(self, cost: timing.Cost) -> Tree:
    """Returns the tree that should be fastest, by what cycles cost."""
    mean, sets = self.tuning.mean, []
    for depth in range(1, self.depth + 1):
      sets += choosing.best(self.tree, mean, depth)[1:]
      if chain := choosing.places(self.tree, tree_lib.chain(depth)):
        sets.append(chain)

    def speed(nodes):
      return (1 + mean[nodes].sum()) / cost(choosing.part(self.tree, nodes))

    return choosing.part(self.tree, max(sets, key=speed))
