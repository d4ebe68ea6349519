"""Times every rule: milliseconds per decision, beside a walk in NumPy.

    JAX_PLATFORMS=cpu python -m benchmarks.verify
    python -m benchmarks.verify --vocab 32000 --trees chain:5 eagle

Drafts. Target logits are 5 times a normal variate: a few tokens hold most of
the mass (the likeliest about 0.4 on average). Draft logits are the target's
plus 0.6 times a normal variate, for a mean total variation TV(p, q) of about
0.2. Siblings are drawn from q without replacement, anew for each decision, and
so are the coins. All rows are float32.

Methods. Every rule in `verifiers.DEFAULT`, and the traversal as one would write
it in NumPy: one node after the other with early exit, every operation on the
vocabulary in place.

Inside. A generation calls no verification: it has one in every cycle of its
loop. So all decisions of a tree are also run in one program, each with the draw
of the bonus token, beside a loop of the NumPy walk with such a draw.

Protocol. Everything is compiled and warm before a clock starts. The methods
then take turns, in a new random order for each decision, on the same tokens and
coins, and each waits for its result. Of four passes over all decisions the
fastest counts, since other work on the machine can only add time. Large trees
get fewer decisions. Only ratios travel from one machine to another.
"""

from __future__ import annotations

import argparse
import functools
import time
from collections.abc import Callable

import jax
import jax.numpy as jnp
import numpy as np

from benchmarks import common
from benchmarks.numpy_walk import Walk
from tv_jax import probs
from tv_jax.proposals import INVALID, WITHOUT_REPLACEMENT
from tv_jax.tree import Tree
from tv_jax.verifiers import DEFAULT, VERIFIERS, misfit

SCALE, NOISE = 5.0, 0.6
REPEATS = 4
NUMPY, OURS = "numpy traversal", "traversal"


def make_drafts(tree: Tree, vocabulary: int, decisions: int, seed: int):
  """Makes laws q, p [N, V], and tokens [decisions, N] drawn from q."""
  key = jax.random.key(seed)
  inner, k = jnp.asarray(tree.inner), tree.max_children
  # Where a node has fewer children, the rest of a draw is dropped.
  places = np.where(tree.children < 0, len(tree), tree.children)[tree.inner]

  @jax.jit
  def laws(key):
    one, two = jax.random.split(key)
    logits = SCALE * jax.random.normal(one, (len(tree), vocabulary))
    noise = NOISE * jax.random.normal(two, logits.shape)
    return probs.law(logits + noise), probs.law(logits)

  @jax.jit
  def draw(key, q):
    keys = jax.random.split(key, len(tree.inner))
    drawn = jax.vmap(lambda key, law: WITHOUT_REPLACEMENT.draw(key, law, k))(
      keys, q[inner]
    )
    tokens = jnp.full(len(tree), INVALID, jnp.int32)
    return tokens.at[places].set(drawn, mode="drop")

  q, p = laws(key)
  keys = [jax.random.fold_in(key, i) for i in range(decisions)]
  return q, p, np.array([draw(own, q) for own in keys])


class Race:
  """All methods on one tree, with drafts of one vocabulary."""

  def __init__(self, tree: Tree, vocabulary: int, decisions: int, seed: int):
    """Makes drafts and coins."""
    self.tree, self.seed = tree, seed
    self.q, self.p, self.tokens = make_drafts(tree, vocabulary, decisions, seed)
    rng = np.random.default_rng(seed)
    self.rules = [
      name
      for name in DEFAULT
      if not misfit(VERIFIERS[name], tree, WITHOUT_REPLACEMENT)
    ]
    self.eta = rng.random((decisions, len(tree)), dtype=np.float32)
    self.points = rng.random(decisions)
    self.walk = Walk(tree, vocabulary)
    # Views on a CPU; for another device the walk's rows are on the host.
    self.host = np.asarray(self.q), np.asarray(self.p)

  def decide(self, name: str) -> Callable:
    """Returns a rule as a function of tokens, coins, q and p."""
    rule = VERIFIERS[name]
    decide = functools.partial(rule.decide, self.tree, WITHOUT_REPLACEMENT)
    return lambda tokens, eta, q, p: decide(tokens, q, p, eta)

  def called(self) -> tuple[dict, dict]:
    """Calls each method for each decision: milliseconds and accepted nodes."""

    def ours(name):
      given = self.tokens[0], self.eta[0], self.q, self.p
      program = jax.jit(self.decide(name)).lower(*given).compile()

      def run(place):
        own = jax.device_put((self.tokens[place], self.eta[place]))
        begin = time.perf_counter()
        node = jax.block_until_ready(program(*own, self.q, self.p)).node
        return 1e3 * (time.perf_counter() - begin), int(node)

      return run

    def numpys(place):
      begin = time.perf_counter()
      node, _ = self.walk.traversal(
        self.tokens[place], *self.host, self.eta[place]
      )
      return 1e3 * (time.perf_counter() - begin), node

    methods = {name: ours(name) for name in self.rules} | {NUMPY: numpys}
    turns = self._race(methods, len(self.tokens))
    times, nodes = {}, {}
    for name, found in turns.items():
      ms, node = np.array(found).reshape(REPEATS, -1, 2).transpose(2, 0, 1)
      times[name], nodes[name] = ms.min(axis=0), node[0].astype(int)
    return times, nodes

  def inside(self) -> dict[str, float]:
    """Milliseconds of one of many decisions inside a program, by method."""
    count = len(self.tokens)
    keys = jax.random.split(jax.random.key(self.seed), count)
    given = *jax.device_put((self.tokens, self.eta, keys)), self.q, self.p
    decide = self.decide(OURS)

    def run(tokens, eta, keys, q, p):
      def one(given):
        tokens, eta, key = given
        made = decide(tokens, eta, q, p)
        return made.node, probs.draw(key, made.residual)

      return jax.lax.map(one, (tokens, eta, keys))

    program = jax.jit(run).lower(*given).compile()

    def ours():
      jax.block_until_ready(program(*given))

    def numpys():
      rows = zip(self.tokens, self.eta, self.points, strict=True)
      for tokens, eta, point in rows:
        _, law = self.walk.traversal(tokens, *self.host, eta)
        self.walk.draw(law, point)

    def timed(method, place):
      del place
      begin = time.perf_counter()
      method()
      return 1e3 * (time.perf_counter() - begin) / count

    methods = {OURS: ours, NUMPY: numpys}
    turns = self._race(
      {name: functools.partial(timed, own) for name, own in methods.items()}, 1
    )
    return {name: min(own) for name, own in turns.items()}

  def _race(self, methods: dict[str, Callable], places: int) -> dict:
    """Calls warm methods in turn with each place, all of it `REPEATS` times."""
    for run in methods.values():
      run(0)
    by_turn = {
      name: lambda turn, run=run: run(turn % places)
      for name, run in methods.items()
    }
    rounds = REPEATS * places
    return common.race(by_turn, rounds, self.seed)


def cells(race: Race) -> dict[str, str]:
  """Returns a column of the table, by row."""
  called, nodes = race.called()
  inside = race.inside()
  own = [nodes[name] for name in (NUMPY, OURS, "block") if name in nodes]
  same = (np.stack(own) == own[0]).all(axis=0)
  inner = race.tree.inner
  q, p = race.host
  distance = np.mean([np.abs(q[v] - p[v]).sum() / 2 for v in inner])
  means = {name: ms.mean() for name, ms in called.items()}
  found = {
    "mean TV(p, q)": f"{distance:.3f}",
    "tokens, traversal": f"{race.tree.depth[nodes[OURS]].mean() + 1:.2f}",
    "same decisions": f"{same.sum()} of {len(same)}",
  }
  for name, ms in called.items():
    found[name] = f"{means[name]:.3g} ({np.median(ms):.3g})"
  found |= {f"inside, {name}": f"{ms:.3g}" for name, ms in inside.items()}
  for name, times in (("a call each", means), ("inside", inside)):
    found[f"traversal / NumPy's, {name}"] = f"{times[OURS] / times[NUMPY]:.2f}"
  return found


def main() -> None:
  """Reads the flags, measures, prints a table for each vocabulary."""
  parser = argparse.ArgumentParser("benchmarks.verify")
  parser.add_argument("--vocab", nargs="+", type=int, default=[128256, 32000])
  trees = ["chain:5", "kary:2x5", "eagle", "grown:768"]
  parser.add_argument("--trees", nargs="+", default=trees)
  parser.add_argument("--decisions", type=int, default=200)
  given = parser.parse_args()
  common.setting("verify")
  for vocabulary in given.vocab:
    columns = {}
    for name in given.trees:
      common.say(f"measuring {name} at V = {vocabulary}")
      tree = common.tree(name)
      # Fewer on large trees, yet enough for a mean.
      most = max(24, given.decisions * 64 // len(tree))
      count = min(given.decisions, most)
      columns[name] = cells(Race(tree, vocabulary, count, seed=0))
    rows = dict.fromkeys(row for own in columns.values() for row in own)
    common.Table(
      title=f"V = {vocabulary}: milliseconds per decision, mean (median)",
      header=["", *columns],
      rows=[
        [row, *(own.get(row, "-") for own in columns.values())] for row in rows
      ],
    ).show()


if __name__ == "__main__":
  main()
