"""What a cycle costs here, by nodes and depth of the tree.

One prompt at a time, after warm-up. All ways to decode take turns on each
prompt, so that other work on the machine slows all of them alike. Reading the
prompt is not part of it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np
from scipy import optimize

from tv_jax.engine.config import DecodeConfig
from tv_jax.engine.decode import Prompt, time_in_turn
from tv_jax.engine.pair import Pair
from tv_jax.engine.results import Estimate
from tv_jax.tree import Tree


class Timed(NamedTuple):
  """One way to decode, on some prompts."""

  cost: float  # seconds of a cycle: the median over prompts
  length: Estimate  # tokens gained a cycle


def measure(
  pair: Pair, configs: Mapping[str, DecodeConfig], prompts: Sequence[Prompt]
) -> dict[str, Timed]:
  """Times ways to decode, by name, in turn on each prompt."""
  longest = max(len(prompt.tokens) for prompt in prompts)
  answered, _ = time_in_turn(pair, configs, prompts, longest)
  items = [prompt.item for prompt in prompts]
  timed = {}
  for name, answers in answered.items():
    cycles = np.array([int(answer.records.cycles[0]) for answer in answers])
    seconds = np.array([answer.cycles for answer in answers])
    accepted = [
      answer.records.accepted[0, :count]
      for answer, count in zip(answers, cycles, strict=True)
    ]
    timed[name] = Timed(
      cost=float(np.median(seconds / cycles)),
      length=Estimate.clustered(
        np.concatenate(accepted), np.repeat(items, cycles)
      ),
    )
  return timed


class Cost(NamedTuple):
  """Seconds of a cycle: base + of_branching + of_level * D + of_node * N."""

  base: float
  of_branching: float  # 0 for a chain, whose cache rows need no moving
  of_level: float
  of_node: float

  def __call__(self, tree: Tree) -> float:
    """Returns the seconds of a cycle on this tree."""
    return float(np.dot(self, _shape(tree)))


def fit(timed: Sequence[tuple[Tree, float]]) -> Cost:
  """Fits the cost to trees and their seconds, with no part below 0.

  Least squares of the relative errors.

  The draft has a pass for each level, and each node is a row of the passes.
  That a few more rows may cost nothing on a GPU is not modelled: the candidate
  that this leads to is timed.
  """
  shares = np.array([np.divide(_shape(tree), cost) for tree, cost in timed])
  return Cost(*optimize.nnls(shares, np.ones(len(timed)))[0].tolist())


def _shape(tree: Tree) -> tuple[int, int, int, int]:
  return (1, int(not tree.is_chain), tree.max_depth, len(tree) - 1)
