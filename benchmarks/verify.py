"""Times every rule: milliseconds per decision, on whatever jax runs on.

    JAX_PLATFORMS=cpu python -m benchmarks.verify
    python -m benchmarks.verify --vocab 32000 --trees chain:5 eagle

Target logits are 5 times a normal variate: a few tokens hold most of the mass
(the most likely one about 0.4 on average). Draft logits are the target's plus
0.6 times a normal variate, for a mean total variation TV(p, q) of about 0.2.
Siblings are drawn from q without replacement. Each decision has new siblings
and coins. All rows are float32.

All decisions of a tree run in a loop in one program, as in a generation, each
with the draw of its bonus token. All rules are compiled and warmed up first.
Then they take turns in a new random order, on the same tokens and coins. The
fastest of four rounds counts, since other work on the machine can only add
time. Only ratios carry over to another machine.
"""

from __future__ import annotations

import argparse
import functools
import time

import jax
import jax.numpy as jnp
import numpy as np

from benchmarks import common
from tv_jax import probs
from tv_jax import tree as tree_lib
from tv_jax.proposals import INVALID, WITHOUT_REPLACEMENT
from tv_jax.tree import Tree
from tv_jax.verifiers import DEFAULT, VERIFIERS, Draft, unsupported_reason

SCALE, NOISE = 5.0, 0.6
ROUNDS = 4
PAPERS = "traversal_reference"  # a loop that ends once a node is accepted


def make_drafts(tree: Tree, vocabulary: int, decisions: int):
  """Makes probabilities q, p [N, V], and tokens [decisions, N] from q."""
  inner, k = jnp.asarray(tree.inner), tree.max_children
  # A node with fewer children drops the rest of its draw.
  places = np.where(tree.children < 0, len(tree), tree.children)[tree.inner]

  @jax.jit
  def laws(key):
    key, noise_key = jax.random.split(key)
    logits = SCALE * jax.random.normal(key, (len(tree), vocabulary))
    noise = NOISE * jax.random.normal(noise_key, logits.shape)
    return probs.from_logits(logits + noise), probs.from_logits(logits)

  @jax.jit
  def draw(key, q):
    keys = jax.random.split(key, len(tree.inner))
    drawn = jax.vmap(lambda key, law: WITHOUT_REPLACEMENT.draw(key, law, k))(
      keys, q[inner]
    )
    tokens = jnp.full(len(tree), INVALID, jnp.int32)
    return tokens.at[places].set(drawn, mode="drop")

  q, p = laws(jax.random.key(0))
  keys = jax.random.split(jax.random.key(1), decisions)
  return q, p, jnp.stack([draw(key, q) for key in keys])


def column(tree: Tree, vocabulary: int, decisions: int) -> dict[str, str]:
  """Returns a column of the table, by row."""
  q, p, tokens = make_drafts(tree, vocabulary, decisions)
  rules = {
    name: VERIFIERS[name]
    for name in (*DEFAULT, PAPERS)
    if not unsupported_reason(VERIFIERS[name], tree, WITHOUT_REPLACEMENT)
  }
  coins, bonus = jax.random.split(jax.random.key(2))
  eta = jax.random.uniform(coins, tokens.shape)
  keys = jax.random.split(bonus, decisions)
  runs, lengths = {}, {}
  for name, rule in rules.items():

    def program(tokens, eta, keys, q, p, rule=rule):
      def decide(row):
        tokens, eta, key = row
        draft = Draft(tree, WITHOUT_REPLACEMENT, tokens, q, p)
        decision = rule.decide(draft, eta)
        return decision.node, probs.draw(key, decision.residual)

      return jax.lax.map(decide, (tokens, eta, keys))

    compiled = jax.jit(program).lower(tokens, eta, keys, q, p).compile()
    nodes, _ = compiled(tokens, eta, keys, q, p)  # warm
    lengths[name] = np.mean(tree.depth[np.asarray(nodes)] + 1)
    runs[name] = functools.partial(compiled, tokens, eta, keys, q, p)

  def timed(run, turn):
    del turn
    begin = time.perf_counter()
    jax.block_until_ready(run())
    return 1e3 * (time.perf_counter() - begin) / decisions

  methods = {name: functools.partial(timed, run) for name, run in runs.items()}
  times = common.race(methods, ROUNDS, seed=0)
  inner = tree.inner
  distance = jnp.abs(q[inner] - p[inner]).sum(-1).mean() / 2
  return {
    "mean TV(p, q)": f"{distance:.3f}",
    **{
      name: f"{min(ms):.3g} ({lengths[name]:.2f})" for name, ms in times.items()
    },
  }


def main() -> None:
  """Reads the flags, measures, prints a table for each vocabulary."""
  parser = argparse.ArgumentParser("benchmarks.verify")
  parser.add_argument("--vocab", nargs="+", type=int, default=[128256, 32000])
  trees = ["chain:5", "kary:2x5", "eagle", "grown:768"]
  parser.add_argument("--trees", nargs="+", default=trees)
  parser.add_argument("--decisions", type=int, default=200)
  options = parser.parse_args()
  common.setting("verify")
  for vocabulary in options.vocab:
    columns = {}
    for name in options.trees:
      common.say(f"measuring {name} at V = {vocabulary}")
      tree = tree_lib.parse(name)
      # Fewer decisions on large trees, but enough for a mean.
      most = max(24, options.decisions * 64 // len(tree))
      columns[name] = column(tree, vocabulary, min(options.decisions, most))
    every = [*columns.values()]
    names = dict.fromkeys(name for cells in every for name in cells)
    common.show(
      f"V = {vocabulary}: milliseconds per decision (tokens per cycle)",
      ["", *columns],
      [[name, *(cells.get(name, "-") for cells in every)] for name in names],
    )


if __name__ == "__main__":
  main()
