"""What a cycle costs here, by nodes and depth of the tree.

One prompt at a time, after warm-up. All ways to decode take turns on each
prompt, so that other work on the machine slows all of them alike. An answer is
timed twice, after its first cycle and whole: both read the prompt, so that the
difference is of cycles alone.
"""

from __future__ import annotations

import concurrent.futures
import time
from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

import numpy as np
from scipy import optimize

from tv_jax import engine
from tv_jax.engine import Settings, batches
from tv_jax.engine.estimates import Estimate
from tv_jax.engine.pair import Pair
from tv_jax.runs import environment
from tv_jax.tree import Tree


class Timed(NamedTuple):
  """One way to decode, on some prompts."""

  seconds: np.ndarray  # [prompts] of a cycle; NaN of an answer of one cycle
  length: Estimate  # tokens gained a cycle

  @property
  def cost(self) -> float:
    """Seconds of a cycle: the median over prompts."""
    known = self.seconds[~np.isnan(self.seconds)]
    return float(np.median(known)) if len(known) else float("nan")


def measure(
  pair: Pair,
  hows: Mapping[str, Settings],
  asked: Mapping[int, Sequence[int]],
  longest: int,
  say: Callable[[str], None],
) -> dict[str, Timed]:
  """Times ways to decode, in turn on each prompt.

  Args:
    pair: The models.
    hows: The ways, with a batch size of 1, by name.
    asked: Prompts by item, as token ids.
    longest: What they are padded for.
    say: Told what is going on.
  """

  def run(how, item, limit):
    tokens = asked[item]
    batch = batches.assemble(pair, how, [tokens], [item], 1, longest, [limit])
    caches = batches.caches(pair, batch)
    begin = time.perf_counter()
    records, _, compiling = engine.decode(how, batch, caches)
    seconds = time.perf_counter() - begin - compiling
    return records, seconds

  names, items = [*hows], [*asked]
  told = f"{', '.join(names)}, in turn on {len(items)} prompts"
  say(f"timing {told}; each is compiled first")
  # Most of all this is to compile, of which hardly anything is Python's.
  with concurrent.futures.ThreadPoolExecutor(environment.cores()) as pool:
    for done in [pool.submit(run, how, items[0], 1) for how in hows.values()]:
      done.result()
  seconds = {name: [] for name in names}
  accepted = {name: [] for name in names}
  for place, item in enumerate(items):
    first = place % len(names)
    for name in (*names[first:], *names[:first]):
      how = hows[name]
      once, before = run(how, item, 1)
      whole, after = run(how, item, how.limit)
      cycles = int(whole.cycles[0])
      more = cycles - int(once.cycles[0])
      seconds[name].append((after - before) / more if more else np.nan)
      accepted[name].append(whole.accepted[0, :cycles])
  for name, own in seconds.items():
    if np.isnan(own).all():
      raise ValueError(
        f"{name}: every answer took a single cycle, and none can be timed: give"
        " more max_new_tokens"
      )
  return {
    name: Timed(
      seconds=np.array(seconds[name]),
      length=Estimate.clustered(
        np.concatenate(accepted[name]),
        np.repeat(items, [*map(len, accepted[name])]),
      ),
    )
    for name in hows
  }


class Cost(NamedTuple):
  """Seconds of a cycle: base + of_branching + of_level * D + of_node * N."""

  base: float
  of_branching: float  # 0 for a chain, whose cache rows need no moving
  of_level: float
  of_node: float

  def __call__(self, tree: Tree) -> float:
    """Returns the seconds of a cycle on this tree."""
    return float(np.dot(self, _shape(tree)))


def fit(found: Sequence[tuple[Tree, float]]) -> Cost:
  """Fits the cost to trees and their seconds, with no part below 0.

  Least squares of the relative errors.

  The draft has a pass for each level, and each node is a row of the passes.
  That a few more rows may cost nothing on a GPU is not modelled: the candidate
  that this leads to is timed.
  """
  shares = np.array([np.divide(_shape(tree), cost) for tree, cost in found])
  return Cost(*optimize.nnls(shares, np.ones(len(found)))[0].tolist())


def _shape(tree: Tree) -> tuple[int, int, int, int]:
  return (1, int(not tree.is_chain), tree.max_depth, len(tree) - 1)
