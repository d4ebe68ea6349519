"""Finds the best tree for a pair of models, a rule and a machine.

One run with a wide tree gives W(v) of each of its nodes in every cycle: the sum
of the rule's stop distribution over v and all nodes below. Half of the prompts
choose the trees, the other half measures them. Then each tree is timed.

Axes: C cycles, N nodes of the wide tree.
"""

from __future__ import annotations

import dataclasses
import datetime
import functools
from collections.abc import Mapping, Sequence
from typing import Any

import jax
import numpy as np

from tv_jax import drafting, verifiers
from tv_jax import tree as tree_lib
from tv_jax.engine.config import DecodeConfig, Rule, decode_config
from tv_jax.engine.decode import Batch, Prompt, time_in_turn
from tv_jax.engine.generate import Prompts, decode_all, read_prompts
from tv_jax.engine.pair import Pair
from tv_jax.engine.results import Estimate
from tv_jax.io import reading
from tv_jax.io.errors import UserError
from tv_jax.io.progress import Progress, silent
from tv_jax.proposals import Proposal
from tv_jax.tree import Tree
from tv_jax.tune import choosing
from tv_jax.tune.results import TreeResult, Tuned
from tv_jax.verifiers import Draft, Verifier

SIZES = (8, 16, 32, 64)
TREES = ("chain:5", "kary:2x5", "eagle")

# The wide tree is made for at least this many nodes, and for this many times
# the largest size: otherwise there is little to choose from.
_LEAST, _TIMES = 64, 1.2
_TIMED = 12  # prompts that trees are timed on
_PLAIN = "plain"


def tune(
  pair: Pair,
  prompts: Prompts,
  *,
  nodes: int = 25,
  depth: int = 5,
  verifier: Rule = "traversal",
  proposal: Proposal | str = "without_replacement",
  sizes: Sequence[int] = SIZES,
  trees: Sequence[str] = TREES,
  temperature: float = 1.0,
  draft_temperature: float | None = None,
  draft_stop: float = 0.0,
  top_k: int = 0,
  top_p: float = 1.0,
  max_new_tokens: int = 32,
  seed: int = 0,
  template: str = "raw",
  ends: Sequence[int] | None = None,
  batch_size: int = 16,
  speed: bool = True,
  progress: Progress = silent,
) -> Tuned:
  """Finds the best tree for a pair, and times it on this machine.

  Every other prompt chooses the trees, and lengths are measured on the rest.
  The best trees have `nodes` drafted nodes, or a number in `sizes`, and at most
  `depth` levels. They are compared with `trees`, without those that take shape
  while drafting or that the rule does not support. `speed` is whether to time
  all trees. `tv_jax.generate` describes the other options.

  Raises:
    ValueError: An option is wrong, or the prompts are too few.
  """
  sizes = sorted({*sizes, nodes})
  if min(depth, *sizes) < 1:
    raise UserError(
      f"nodes={nodes}, depth={depth}, sizes={sizes}: give 1 or more"
    )
  rule = verifiers.resolve(verifier)
  drafted: dict[str, Any] = {
    "verifier": rule,
    "proposal": proposal,
    "temperature": temperature,
    "draft_temperature": draft_temperature,
    "draft_stop": draft_stop,
    "top_k": top_k,
    "top_p": top_p,
    "max_new_tokens": max_new_tokens,
    "seed": seed,
    "ends": ends,
    "batch_size": batch_size,
  }
  if not rule.offers:
    raise UserError(
      f"verifier {rule.name!r} has no stopping distribution to tune by: give a"
      " Verifier(offers=..)"
    )
  named = {name: tree_lib.resolve(name) for name in trees}
  compared = {
    name: tree
    for name, tree in named.items()
    if not (rule.refuses and rule.refuses(tree))
  }
  wide = _wide(rule, nodes, depth, sizes[-1], [*compared.values()])
  for tree in compared.values():
    decode_config(pair, tree=tree, **drafted)  # refuses what cannot be drafted
  config = decode_config(pair, tree=wide, **drafted)
  asked = read_prompts(pair, config, prompts, template=template)
  if len(asked) < 4 or len({tuple(x.tokens) for x in asked}) < len(asked):
    raise UserError(
      f"{len(asked)} prompts: give 4 or more, no two the same: half to tune on"
      " and half to measure on"
    )
  progress(f"decoding {len(asked)} prompts with {wide!r}", 0, 1 + speed)
  reach = Reach(config)
  run = decode_all(pair, config, asked, step=reach.step)
  assert run.check
  reached, items = reach.of_cycles()
  tuned_on = np.isin(items, np.unique(items)[::2])
  values = reached[tuned_on].mean(axis=0)
  best = choosing.best_nodes(
    wide, np.where(wide.depth <= depth, values, -np.inf)
  )
  chosen = {
    f"tuned:{size}": choosing.part(wide, best[size])
    for size in sizes
    if size < len(best)
  }
  compared = chosen | compared
  reached, items = reached[~tuned_on], items[~tuned_on]
  timed: dict[str, tuple[float, Estimate]] = {}
  if speed:
    unseen = [asked[int(item)] for item in np.unique(items)]
    some = unseen[:: max(1, len(unseen) // _TIMED)][:_TIMED]
    alone = dataclasses.replace(config, batch_size=1, panel=())
    plain = {"verifier": None, "draft_stop": 0.0, "batch_size": 1}
    configs = {_PLAIN: decode_config(pair, **drafted | plain)}
    for name, tree in compared.items():
      configs[name] = dataclasses.replace(alone, tree=tree)
    progress(f"timing {', '.join(configs)}, on {len(some)} prompts", 1, 2)
    timed = _time(pair, configs, some)
  rows = {}
  for name, tree in compared.items():
    measured = gain = None
    if (places := choosing.places(wide, tree)) is not None:
      sums = reached[:, places].sum(axis=1)
      gained = sums - reached[:, best[nodes]].sum(axis=1)
      measured = Estimate.clustered(1 + sums, items)
      gain = Estimate.clustered(gained, items)
    seconds, decoded = timed.get(name, (None, None))
    rows[name] = TreeResult(
      tree=tree, measured=measured, gain=gain, decoded=decoded, seconds=seconds
    )
  notes = [
    f"wide tree: {wide!r}; tuned on {tuned_on.sum()} cycles of every other"
    f" prompt, measured on {len(items)} cycles of the other prompts"
  ]
  assert config.proposal
  if not (config.proposal.nested and rule.by_path):
    notes.append(
      f"with {config.proposal.name} and {rule.name} a node's W may depend on"
      " the rest of the tree: lengths of smaller trees are approximations;"
      " trust the decoded ones"
    )
  return Tuned(
    name=f"tuned:{nodes}",
    rows=rows,
    plain=timed[_PLAIN][0] if speed else None,
    check=run.check,
    settings=_settings(pair, config),
    notes=tuple(notes),
  )


def _wide(
  rule: Verifier, nodes: int, depth: int, largest: int, compared: list[Tree]
) -> Tree:
  """Returns the wide tree; raises ValueError if it has too few nodes."""
  wide = choosing.wide(
    max(_LEAST, round(_TIMES * largest)),
    depth,
    # Far larger trees are only timed: they would make the wide tree slow.
    [tree for tree in compared if len(tree) <= 2 * _LEAST],
  )
  if rule.refuses and rule.refuses(wide):
    wide = tree_lib.chain(wide.max_depth)
  most = int((wide.depth <= depth).sum()) - 1
  if nodes > most:
    raise UserError(
      f"nodes={nodes}: {wide!r} has {most} drafted nodes of depth {depth} or"
      " less: give fewer, or a larger depth"
    )
  return wide


class Reach:
  """Collects W of all nodes in every cycle; `step` is a callback."""

  def __init__(self, config: DecodeConfig):
    """Starts with no cycles."""
    self.config = config
    self._stops: list[np.ndarray] = []
    self._items: list[np.ndarray] = []

  def step(self, batch: Batch) -> None:
    """Runs one cycle of a batch."""
    active = ~np.asarray(batch.state.done)
    drafted, p = batch.step()
    stops = _stopping(
      self.config.verifier,
      self.config.tree,
      self.config.proposal,
      drafted.tokens,
      drafted.laws,
      p,
    )
    self._stops.append(np.asarray(stops)[active])
    self._items.append(batch.items[active])

  def of_cycles(self) -> tuple[np.ndarray, np.ndarray]:
    """Returns W of all nodes in all cycles [C, N], and their prompts [C]."""
    assert self.config.tree
    items = np.concatenate(self._items)
    order = np.argsort(items, kind="stable")
    stops = np.concatenate(self._stops)
    return reach_of(self.config.tree, stops[order]), items[order]


@functools.partial(jax.jit, static_argnums=(0, 1, 2))
def _stopping(rule, tree, proposal, tokens, q, p):
  """Returns the stopping distributions [B, N] of drafted trees."""
  q = drafting.to_all_nodes(tree, q)
  return jax.vmap(rule.stopping)(Draft(tree, proposal, tokens, q, p))


def reach_of(tree: Tree, stop: np.ndarray) -> np.ndarray:
  """Sums stop distributions [C, N] over each node and all nodes below it."""
  return np.asarray(stop, np.float64) @ tree.ancestors.astype(np.float64)


def _settings(pair: Pair, config: DecodeConfig) -> dict:
  assert config.proposal
  assert pair.draft
  return {
    "verifier": config.name,
    "proposal": config.proposal.name,
    "temperature": config.temperature,
    # A proposal that only ranks tokens does not use a temperature.
    "draft_temperature": None
    if config.proposal.ranks
    else config.draft_temperature,
    "draft_stop": config.draft_stop,
    "target": reading.name_of(pair.target.source),
    "draft": reading.name_of(pair.draft.source),
    "device": jax.devices()[0].device_kind,
    "date": datetime.date.today().isoformat(),
  }


def _time(
  pair: Pair, configs: Mapping[str, DecodeConfig], prompts: Sequence[Prompt]
) -> dict[str, tuple[float, Estimate]]:
  """Times configs in turn on each prompt, after warm-up, without prefill.

  Other work on the machine then slows all of them alike.

  Returns:
    By name: the seconds of a cycle (a median over prompts), and the acceptance
    length.
  """
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
