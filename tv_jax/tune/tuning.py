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
from tv_jax.engine.decode import Prompt, time_in_turn
from tv_jax.engine.generate import decode_all, read_prompts
from tv_jax.engine.pair import Pair
from tv_jax.engine.results import Estimate
from tv_jax.tree import Tree
from tv_jax.tune import choosing, sampling
from tv_jax.tune.results import TUNED, Row, Tuned
from tv_jax.verifiers import Verifier

BUDGETS = (8, 16, 32, 64)
TREES = ("chain:5", "kary:2x5", "eagle")

# The wide tree has at least about so many nodes, and more than are asked for.
# With fewer there is little to choose from.
_LEAST, _TIMES = 64, 1.2
# On so many prompts trees are timed.
_TIMED = 12
_PLAIN = "plain"


def tune(
  pair: Pair,
  prompts: Sequence[str | Sequence[int]],
  *,
  nodes: int = 25,
  depth: int = 5,
  verifier: Verifier | str = "traversal",
  budgets: Sequence[int] = BUDGETS,
  trees: Sequence[str] = TREES,
  template: str = "raw",
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
    verifier: The rule, which needs a stop law.
    budgets: More numbers of nodes to find the best trees for.
    trees: Trees to compare with, by name; those of no fixed nodes, or not for
      the rule, are left out.
    template: How strings become tokens.
    speed: Whether to time all of these trees, and to find the fastest.
    say: Called with a line at each step.
    **options: More of `generate`'s; max_new_tokens is 32 by default.

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
  if not rule.offers:
    raise ValueError(
      f"verifier {rule.name!r} has no stop law to tune by: give a"
      " Verifier(offers=..)"
    )
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
  options = {"verifier": verifier, "max_new_tokens": 32} | options
  trace = options["max_new_tokens"]
  config = decode_config(pair, tree=wide, trace=trace, **options)
  asked = read_prompts(pair, config, prompts, template=template)
  if len(asked) < 4 or len({tuple(x.tokens) for x in asked}) < len(asked):
    raise ValueError(
      f"{len(asked)} prompts: give 4 or more, no two the same: half to tune on"
      " and half to measure on"
    )
  say(f"decoding {len(asked)} prompts with {wide!r}")
  run = decode_all(pair, config, asked)
  assert run.check
  tuning, others = sampling.of_run(run).halves()
  best = choosing.best(wide, tuning.worth.mean(axis=0), depth)

  name = f"{TUNED}{nodes}"
  chosen = {
    f"{TUNED}{count}": choosing.part(wide, best[count])
    for count in budgets
    if count < len(best)
  }
  assert config.proposal
  assert pair.draft
  notes = [
    f"wide tree: {wide!r}; tuned on {len(tuning.item)} cycles of every other"
    f" prompt, measured on {len(others.item)} of the rest"
  ]
  if not (config.proposal.nested and rule.by_path):
    notes.append(
      f"with {config.proposal.name} and {rule.name} a node's worth may depend"
      " on the rest of the tree: lengths of smaller trees are approximations;"
      " trust the decoded ones"
    )
  if options.get("draft_temperature") is not None:
    notes.append(
      f"drafted at temperature {config.draft_temperature:g}: give runs of these"
      " trees the same draft_temperature, which no file of a tree sets"
    )
  compared = chosen | compared
  timed: dict[str, tuple[float, Estimate]] = {}
  if speed:
    # None was tuned on these.
    unseen = [asked[int(item)] for item in np.unique(others.item)]
    some = unseen[:: max(1, len(unseen) // _TIMED)][:_TIMED]
    say(f"timing {', '.join([_PLAIN, *compared])}, on {len(some)} prompts")
    timed = _time(pair, options, compared, some)

  def row(name: str, tree: Tree) -> Row:
    columns: dict[str, Any] = {}
    if (places := choosing.places(wide, tree)) is not None:
      columns["measured"] = others.length(places)
      columns["gain"] = others.gain(places, best[nodes])
    if name in timed:
      columns["seconds"], columns["decoded"] = timed[name]
    return Row(name=name, tree=tree, **columns)

  return Tuned(
    name=name,
    rows={x: row(x, tree) for x, tree in compared.items()},
    plain=timed[_PLAIN][0] if speed else None,
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
) -> dict[str, tuple[float, Estimate]]:
  """Times plain decoding and trees, in turn on each prompt, after warm-up.

  So other work on the machine slows all of them alike. Reading the prompt does
  not count.

  Returns:
    By name: the seconds of a cycle, a median over prompts; and its length.
  """
  options = options | {"batch_size": 1, "panel": None}
  plain = options | {"verifier": None, "proposal": "without_replacement"}
  configs = {_PLAIN: decode_config(pair, **plain)}
  for name, tree in trees.items():
    configs[name] = decode_config(pair, **options, tree=tree)
  longest = max(len(prompt.tokens) for prompt in prompts)
  answered, _ = time_in_turn(pair, configs, prompts, longest)
  items = [prompt.item for prompt in prompts]
  timed = {}
  for name, answers in answered.items():
    accepted = [answer.continuation.accepted for answer in answers]
    cycles = np.array([len(lengths) for lengths in accepted])
    seconds = np.array([answer.cycles for answer in answers])
    timed[name] = (
      float(np.median(seconds / cycles)),
      Estimate.clustered(np.concatenate(accepted), np.repeat(items, cycles)),
    )
  return timed
