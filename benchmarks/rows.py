"""What it is worth that a row which is done takes the next prompt.

    python -m benchmarks.rows

The first turns of MiniBench, as `generate` decodes them and in batches that
wait for their longest answer: in turns, after a first of each that is thrown
away. The answers are the same. In use is each row whose answer goes on.
"""

from __future__ import annotations

import argparse
import statistics

import tv_jax
from benchmarks import common
from tv_jax import engine
from tv_jax.runs import questions as questions_lib


def in_batches(results, size: int) -> float:
  """The share of row cycles that are in use if each batch waits."""
  cycles = [len(own) for own in results.accepted]
  groups = [cycles[i : i + size] for i in range(0, len(cycles), size)]
  return sum(cycles) / (size * sum(map(max, groups)))


def measure(pair, asked, tree: str, given: argparse.Namespace) -> list:
  """A line of the table."""
  how = engine.resolve(
    pair,
    tree=tree,
    verifier=given.verifiers,
    batch_size=given.rows,
    panel=(given.panel,) if given.panel else None,
  )
  ratios, seconds = [], []
  for turn in range(given.rounds + 1):
    waiting, refilled = (
      engine.decode_batches(
        pair, how, asked, decode, template="chat", progress=False
      )
      for decode in (engine.decode, None)
    )
    if waiting.tokens != refilled.tokens:
      raise AssertionError(f"{tree}: the answers differ")
    if turn:
      ratios.append(waiting.seconds / refilled.seconds)
      seconds.append(refilled.seconds)
  return [
    tree,
    f"{in_batches(refilled, given.rows):.0%}",
    f"{statistics.median(seconds):.2f}",
    common.spread(ratios),
  ]


def main(arguments: list[str]) -> None:
  """Reads the flags, measures, prints the table."""
  parser = common.Parser("rows", __doc__)
  parser.add_argument("--draft", default="bundled/draft")
  parser.add_argument("--target", default="bundled/target")
  parser.add_argument("--trees", default="chain:5,eagle,kary:2x5")
  parser.add_argument("--verifiers", default="traversal")
  parser.add_argument("--panel", default="token_level", help="'': none")
  parser.add_argument("--rows", type=common.at_least(1), default=8)
  parser.add_argument("--per_task", type=common.at_least(1), default=8)
  parser.add_argument("--rounds", type=common.at_least(1), default=9)
  given = parser.parse_args(arguments)
  questions = questions_lib.limit(
    questions_lib.load_questions("minibench"), per_task=given.per_task
  )
  asked = [question.turns[0] for question in questions]
  trees = common.parse_trees(given.trees)
  pair = tv_jax.load(given.draft, given.target)
  common.Table(
    title=f"{len(asked)} prompts, {given.rows} rows, {given.verifiers}"
    + f", and {given.panel}'s law" * bool(given.panel),
    header=["tree", "in use where batches wait", "s", "batches / rows"],
    rows=[measure(pair, asked, tree, given) for tree in trees],
  ).show()


if __name__ == "__main__":
  common.run("rows", main)
