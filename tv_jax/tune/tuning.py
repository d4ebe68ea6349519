"""Tune: the best tree for a pair, a rule and a machine."""

from __future__ import annotations

import datetime
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import jax
import numpy as np

from tv_jax import tree as tree_lib
from tv_jax import verifiers
from tv_jax.edge import reading
from tv_jax.engine.config import decode_config
from tv_jax.engine.decode import Prompt
from tv_jax.engine.generate import decode_all, read_prompts
from tv_jax.engine.pair import Pair
from tv_jax.tree import Tree
from tv_jax.tune import choosing, sampling, timing
from tv_jax.tune.results import TUNED, Row, Tuned
from tv_jax.verifiers import Decide, Verifier

BUDGETS = (8, 16, 32, 64)
TREES = ("chain:5", "kary:2x5", "eagle")

# The wide tree has at least about so many nodes, and more than are asked for.
# With fewer there is little to choose from.
_LEAST, _TIMES = 64, 1.2
# On so many prompts costs are fitted, and then all trees are timed.
_FEW, _MANY = 3, 12
_PLAIN = "plain"


def tune(
  pair: Pair,
  prompts: Sequence[str | Sequence[int]],
  *,
  nodes: int = 25,
  depth: int = 5,
  verifier: Verifier | Decide | str = "traversal",
  budgets: Sequence[int] = BUDGETS,
  trees: Sequence[str] = TREES,
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
  resolved = {name: tree_lib.resolve(name) for name in trees}
  compared = {
    name: tree
    for name, tree in resolved.items()
    if isinstance(tree, Tree) and not rule.refuses(tree)
  }
  wide = choosing.wide(
    max(_LEAST, round(_TIMES * budgets[-1])),
    depth,
    # A tree that is far larger than all that is asked for is only run.
    [tree for tree in compared.values() if len(tree) <= 2 * _LEAST],
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
  asked = read_prompts(pair, config, prompts, template=template)
  if len(asked) < 4 or len({tuple(x.tokens) for x in asked}) < len(asked):
    raise ValueError(
      f"{len(asked)} prompts: give 4 or more, no two the same: half to tune on"
      " and half to measure on"
    )
  say(f"decoding {len(asked)} prompts with {wide!r}")
  run = decode_all(pair, config, asked)
  tuning, others = sampling.of_run(run).halves()
  best = choosing.best(wide, tuning.mean, depth)

  name = f"{TUNED}{nodes}"
  chosen = {
    f"{TUNED}{count}": choosing.part(wide, best[count])
    for count in budgets
    if count < len(best)
  }
  assert config.proposal
  assert pair.draft
  notes = [
    f"wide tree: {wide!r}; tuned on {tuning}, measured on {others} (the other"
    " ones)"
  ]
  if not (config.proposal.nested and rule.by_path):
    notes.append(
      f"with {config.proposal.name} and {rule.name} a node's worth may depend"
      " on the rest of the tree: lengths of smaller trees are approximations;"
      " trust the decoded ones"
    )
  timed: dict[str, timing.Timed] = {}
  if speed:
    # None was tuned on these.
    unseen = [asked[int(item)] for item in np.unique(others.item)]
    compared[name] = chosen[name]
    if len({tree.max_depth for tree in compared.values()}) == 1:
      # Else what a level costs could not be fitted.
      half = tree_lib.chain(max(1, depth // 2))
      compared[f"chain:{half.max_depth}"] = half
    timed = _time(pair, options, compared, unseen, _FEW, say)
    cost = timing.fit([(tree, timed[x].cost) for x, tree in compared.items()])
    candidate = _candidate(wide, tuning.mean, depth, cost)
    if candidate not in compared.values():
      compared["fast"] = candidate
    timed = _time(pair, options, compared, unseen, _MANY, say)
    notes.append(
      f"fitted: a cycle takes {1e3 * cost.base:.2f} ms,"
      f" {1e3 * cost.of_level:.2f} more a level, {1e3 * cost.of_node:.3f} a"
      f" node, {1e3 * cost.of_branching:.2f} if it branches"
    )

  def row(name: str, tree: Tree) -> Row:
    columns: dict[str, Any] = {}
    if (places := choosing.places(wide, tree)) is not None:
      columns["predicted"] = tuning.length(places)
      columns["measured"] = others.length(places)
      columns["gain"] = others.gain(places, best[nodes])
    if name in timed:
      columns["decoded"] = timed[name].length
      columns["seconds"] = timed[name].cost
    return Row(name=name, tree=tree, **columns)

  return Tuned(
    name=name,
    rows={x: row(x, tree) for x, tree in (chosen | compared).items()},
    plain=timed[_PLAIN].cost if speed else None,
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


def _time(
  pair: Pair,
  options: dict[str, Any],
  trees: Mapping[str, Tree],
  prompts: Sequence[Prompt],
  count: int,
  say: Callable[[str], None],
) -> dict[str, timing.Timed]:
  """Times plain decoding, and trees, on so many of the prompts."""
  some = prompts[:: max(1, len(prompts) // count)][:count]
  say(f"timing {', '.join([_PLAIN, *trees])}, in turn on {len(some)} prompts")
  options = options | {"batch_size": 1, "panel": None}
  plain = options | {"verifier": None, "proposal": "without_replacement"}
  configs = {_PLAIN: decode_config(pair, **plain)}
  for name, tree in trees.items():
    configs[name] = decode_config(pair, **options, tree=tree)
  return timing.measure(pair, configs, some)


def _candidate(
  wide: Tree, worth: np.ndarray, depth: int, cost: timing.Cost
) -> Tree:
  """Returns the tree that should be fastest, by what cycles cost.

  Args:
    wide: The tree that it is a part of.
    worth: [N] what the wide tree's nodes are worth.
    depth: How many levels it has at most.
    cost: Of a cycle.
  """
  sets = []
  for levels in range(1, depth + 1):
    sets += choosing.best(wide, worth, levels)[1:]
    if chain := choosing.places(wide, tree_lib.chain(levels)):
      sets.append(chain)

  def speed(nodes):
    return (1 + worth[nodes].sum()) / cost(choosing.part(wide, nodes))

  return choosing.part(wide, max(sets, key=speed))
