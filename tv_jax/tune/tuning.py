"""Tune: the best tree for a pair, a rule and a machine."""

from __future__ import annotations

import datetime
from collections.abc import Callable, Mapping, Sequence

import jax
import numpy as np

from tv_jax import engine, probs, verifiers
from tv_jax import tree as tree_lib
from tv_jax.edge import reading
from tv_jax.engine.pair import Pair
from tv_jax.proposals import Proposal
from tv_jax.replay import Cycles
from tv_jax.tree import Tree
from tv_jax.tune import sampling, timing
from tv_jax.tune.finding import BUDGETS, TREES, Found, check_room, wanted
from tv_jax.tune.results import Tuned
from tv_jax.tune.widening import wide
from tv_jax.verifiers import Decide, Verifier

# The wide tree has at least so many nodes, and so many times the most that are
# asked for: else there is little to choose from.
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
    pair: Of `tv_jax.load`.
    prompts: At least 4, no two alike. Every other one is tuned on, and what is
      said to be measured is of the rest.
    nodes: Drafted nodes of the tree, the root aside.
    depth: Its levels at most.
    verifier: The rule, as in `generate`.
    proposal: How siblings are drawn, as in `generate`.
    budgets: More numbers of nodes to find the best trees of.
    trees: Trees to compare with, by name.
    template: How strings become tokens.
    max_new_tokens: Of each prompt.
    speed: Whether to time trees, and to find the fastest.
    say: Told what is going on, a line at a time.
    **others: More of `generate`'s options: temperature, seed, batch_size, ..

  Returns:
    The trees, with their lengths and speeds.

  Raises:
    ValueError: Something is wrong with what is asked for.
  """
  rule = verifiers.resolve(verifier)
  ask = wanted(nodes, depth, budgets, trees, rule)
  broad = wide(
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
  how = engine.resolve(pair, tree=broad, trace=max_new_tokens, **shared)
  asked = engine.read(pair, how, prompts, template=template)
  _check_prompts([prompt.tokens for prompt in asked])
  check_room(broad, ask)
  say(f"decoding {len(asked)} prompts with {broad!r}")
  size = min(how.batch_size, len(asked))
  rows = engine.Rows(pair, size, hurried=True)
  run = engine.decode_all(pair, how, asked, rows)
  drafted = how.plan.speculation
  found = Found(sampling.of_run(run), ask, drafted.proposal, drafted.verifier)
  found.notes += _cooled_otherwise(trees, how)
  said = {
    "verifier": how.name,
    "proposal": how.proposal,
    "temperature": how.temperature,
    # What only ranks has none that a tree could be tuned for.
    "draft_temperature": None
    if how.plan.speculation.proposal.ranks
    else how.draft_temperature,
    "target": reading.name_of(pair.target.source),
    "draft": reading.name_of(pair.draft.source),
    "device": jax.devices()[0].device_kind,
    "date": datetime.date.today().isoformat(),
  }
  if not speed:
    return found.result(said)

  def clock(trees: Mapping[str, Tree | None], count: int):
    """Times trees on some of the prompts that none was tuned on."""
    items = [*np.unique(found.others.item)]
    items = items[:: max(1, len(items) // count)][:count]
    own = shared | {"batch_size": 1, "panel": None}
    hows = {
      name: engine.resolve(pair, tree=tree, **own)
      if tree
      else engine.resolve(pair, **_plainly(own))
      for name, tree in trees.items()
    }
    some = [asked[int(item)] for item in items]
    longest = max(len(prompt.tokens) for prompt in asked)
    return timing.measure(pair, hows, some, longest, say)

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
    cycles: Of `replay.load`.
    nodes: As in `tune`, like all that follows.
    depth: Levels at most.
    verifier: The rule.
    budgets: More numbers of nodes.
    trees: To compare with.

  Returns:
    The trees, with their lengths.
  """
  rule = verifiers.resolve(verifier)
  ask = wanted(nodes, depth, budgets, trees, rule)
  sample = sampling.of_cycles(rule, cycles)
  said = {
    "verifier": rule.name,
    "proposal": cycles.proposal.name,
    "temperature": cycles.temperature,
    "draft_temperature": _recorded(cycles),
  }
  found = Found(sample, ask, cycles.proposal, rule)
  return found.result(said)


def _recorded(cycles) -> float | None:
  """The draft's temperature, as far as the file says one."""
  own = cycles.meta.get("draft_temperature")
  known = probs.is_number(own) and probs.COLDEST <= own < probs.COLDEST**-1
  return own if known and not cycles.proposal.ranks else None


def _cooled_otherwise(trees, how):
  """Of files that have the draft at another temperature than all have here."""
  for name in trees if not isinstance(trees, Mapping) else ():
    draft, target = tree_lib.temperatures(name) or (1.0, 1.0)
    if draft != target and (
      draft * how.temperature != target * how.draft_temperature
    ):
      yield (
        f"{name} is of a draft at {draft:g} with the target at {target:g}; here"
        f" all drafts are at {how.draft_temperature:g}, the target at"
        f" {how.temperature:g}"
      )


def _plainly(own: dict) -> dict:
  """The options without what is of drafts."""
  return {k: v for k, v in own.items() if k != "proposal"} | {"verifier": None}


def _check_prompts(tokens):
  """Refuses too few, and what would be tuned and measured on the same text."""
  sampling.check_items(len(tokens))
  first = {}
  for i, own in enumerate(map(tuple, tokens)):
    if own in first:
      raise ValueError(
        f"prompts {first[own]} and {i} are the same: a tree must be measured"
        " on other prompts than it is tuned on"
      )
    first[own] = i
