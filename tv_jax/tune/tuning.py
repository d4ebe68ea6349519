"""Tune: the best tree for a pair, a rule and a machine."""

from __future__ import annotations

import datetime
from collections.abc import Callable, Iterator, Mapping, Sequence

import jax
import numpy as np

from tv_jax import probs, verifiers
from tv_jax import tree as tree_lib
from tv_jax.edge import checks, reading
from tv_jax.engine.config import DecodeConfig, decode_config
from tv_jax.engine.generate import decode_all
from tv_jax.engine.pair import Pair
from tv_jax.engine.prompts import read_prompts
from tv_jax.proposals import Proposal
from tv_jax.replay import Cycles
from tv_jax.tree import Tree
from tv_jax.tune import choosing, sampling, timing
from tv_jax.tune.finding import BUDGETS, TREES, Found, check_room, wanted
from tv_jax.tune.results import Tuned
from tv_jax.verifiers import Decide, Verifier

# The wide tree has at least so many nodes, and so many times the most that are
# asked for. With fewer there is little to choose from.
_LEAST, _TIMES = 96, 1.5


def tune(
  pair: Pair,
  prompts: Sequence[str | Sequence[int]],
  *,
  nodes: int = 25,
  depth: int = 5,
  verifier: Verifier | Decide | str = "traversal",
  proposal: Proposal | str = "without_replacement",
  budgets: Sequence[int] = BUDGETS,
  trees: Sequence[str] | Mapping[str, Tree] = TREES,
  template: str = "raw",
  max_new_tokens: int = 32,
  speed: bool = True,
  say: Callable[[str], None] = lambda line: None,
  **others,
) -> Tuned:
  """Finds the best tree for a pair, and the fastest here.

  Args:
    pair: What `tv_jax.load` returned.
    prompts: At least 4, no two alike. Every other one is tuned on; lengths are
      measured on the rest.
    nodes: How many drafted nodes the tree has, without the root.
    depth: How many levels it has at most.
    verifier: The rule, as in `generate`.
    proposal: How siblings are drawn, as in `generate`.
    budgets: More numbers of nodes to find the best trees for.
    trees: Trees to compare with, by name.
    template: How strings become tokens.
    max_new_tokens: For each prompt.
    speed: Whether to time trees, and to find the fastest.
    say: Called with a line at each step.
    **others: More of `generate`'s options: temperature, seed, batch_size, ..

  Returns:
    The trees, with their lengths and speeds.

  Raises:
    ValueError: Something that was asked for is wrong.
  """
  rule = verifiers.resolve(verifier)
  ask = wanted(nodes, depth, budgets, trees, rule)
  broad = choosing.wide(
    max(_LEAST, round(_TIMES * ask.budgets[-1])),
    ask.depth,
    rule,
    # A tree that is far larger than all that is asked for is only run.
    [one for one in ask.trees.values() if len(one) <= 2 * _LEAST],
  )
  shared = {
    "verifier": verifier,
    "proposal": proposal,
    "max_new_tokens": max_new_tokens,
    **others,
  }
  config = decode_config(pair, tree=broad, trace=max_new_tokens, **shared)
  asked = read_prompts(pair, config, prompts, template=template)
  _check_prompts([prompt.tokens for prompt in asked])
  check_room(broad, ask)
  say(f"decoding {len(asked)} prompts with {broad!r}")
  run = decode_all(pair, config, asked)
  assert config.proposal
  assert pair.draft
  found = Found(sampling.of_run(run), ask, config.proposal, rule)
  found.notes += _cooled_otherwise(trees, config)
  said = {
    "verifier": config.name,
    "proposal": config.proposal.name,
    "temperature": config.temperature,
    # A proposal that only ranks draws at none.
    "draft_temperature": None
    if config.proposal.ranks
    else config.draft_temperature,
    "target": reading.name_of(pair.target.source),
    "draft": reading.name_of(pair.draft.source),
    "device": jax.devices()[0].device_kind,
    "date": datetime.date.today().isoformat(),
  }
  if config.draft_stop:
    said["draft_stop"] = config.draft_stop
  if not speed:
    return found.result(said)

  def clock(trees: Mapping[str, Tree | None], count: int):
    """Times trees on some of the prompts that none was tuned on."""
    items = [*np.unique(found.others.item)]
    items = items[:: max(1, len(items) // count)][:count]
    own = shared | {"batch_size": 1, "panel": None}
    configs = {
      name: decode_config(pair, **own | _as_drafted(tree))
      for name, tree in trees.items()
    }
    some = [asked[int(item)] for item in items]
    longest = max(len(prompt.tokens) for prompt in asked)
    return timing.measure(pair, configs, some, longest, say)

  return found.result(said, clock)


def tune_recorded(
  cycles: Cycles,
  *,
  nodes: int = 25,
  depth: int = 5,
  verifier: Verifier | Decide | str = "traversal",
  budgets: Sequence[int] = BUDGETS,
  trees: Sequence[str] | Mapping[str, Tree] = TREES,
) -> Tuned:
  """Finds the best part of the tree of recorded cycles; times nothing.

  Args:
    cycles: What `replay.load` returned.
    nodes: As in `tune`.
    depth: As in `tune`.
    verifier: As in `tune`.
    budgets: As in `tune`.
    trees: As in `tune`.

  Returns:
    The trees, with their lengths.
  """
  rule = verifiers.resolve(verifier)
  ask = wanted(nodes, depth, budgets, trees, rule)
  sample = sampling.of_cycles(rule, cycles)
  # What is no temperature is left out, and where the target's is not known.
  valid = checks.number(least=probs.COLDEST, below=1 / probs.COLDEST)
  cooled = valid(cycles.meta.get("draft_temperature"), "", [])
  if cycles.proposal.ranks or cycles.temperature is None:
    cooled = None
  said = {
    "verifier": rule.name,
    "proposal": cycles.proposal.name,
    "temperature": cycles.temperature,
    "draft_temperature": cooled,
  }
  return Found(sample, ask, cycles.proposal, rule).result(said)


def _cooled_otherwise(trees, config: DecodeConfig) -> Iterator[str]:
  """Notes files that were tuned for a draft at another temperature."""
  for name in trees if not isinstance(trees, Mapping) else ():
    draft, target = tree_lib.temperatures(name) or (1.0, 1.0)
    if draft != target and (
      draft * config.temperature != target * config.draft_temperature
    ):
      yield (
        f"{name} was tuned for a draft at {draft:g} with the target at"
        f" {target:g}; here all drafts are at {config.draft_temperature:g}, the"
        f" target at {config.temperature:g}"
      )


def _as_drafted(tree: Tree | None) -> dict:
  """Returns the options that draft with a tree, or decode plainly."""
  if tree is None:
    return {"verifier": None, "proposal": "without_replacement"}
  return {"tree": tree}


def _check_prompts(tokens: Sequence[Sequence[int]]) -> None:
  """Refuses too few, and two that are the same text."""
  sampling.check_items(len(tokens))
  first: dict[tuple[int, ...], int] = {}
  for i, own in enumerate(map(tuple, tokens)):
    if first.setdefault(own, i) < i:
      raise ValueError(
        f"prompts {first[own]} and {i} are the same: a tree must be measured"
        " on other prompts than it is tuned on"
      )
