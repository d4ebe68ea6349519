"""What it is worth that a row which is done takes the next prompt.

    python -m benchmarks.rows

The first turns of MiniBench, as `generate` decodes them and in batches that
wait for their longest answer: in turns, after a first of each that is thrown
away. The answers are the same. In use is each row whose answer goes on.
"""

from __future__ import annotations

import argparse
import statistics
import sys

import numpy as np

import tv_jax
from benchmarks import common
from tv_jax import engine
from tv_jax.edge import cli
from tv_jax.runs import questions as questions_lib


def in_batches(results, size: int) -> float:
  """The share of row cycles that are in use if each batch waits."""
  cycles = [len(own) for own in results.accepted]
  groups = [cycles[i : i + size] for i in range(0, len(cycles), size)]
  return sum(cycles) / (size * sum(map(max, groups)))


def measure(pair, asked, tree: str, flags: argparse.Namespace) -> list:
  """A line of the table."""
  how = engine.resolve(
    pair,
    tree=tree,
    verifier=flags.verifiers,
    batch_size=flags.rows,
    panel=(flags.panel,) if flags.panel else None,
  )
  ratios, seconds = [], []
  for turn in range(flags.rounds + 1):
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
  low, middle, high = np.quantile(ratios, [0.25, 0.5, 0.75])
  return [
    tree,
    f"{in_batches(refilled, flags.rows):.0%}",
    f"{statistics.median(seconds):.2f}",
    f"{middle:.2f} ({low:.2f} to {high:.2f})",
  ]


def parse(arguments: list[str]) -> argparse.Namespace:
  """The command line."""
  parser = argparse.ArgumentParser(
    prog="python -m benchmarks.rows",
    description=__doc__,
    formatter_class=argparse.RawDescriptionHelpFormatter,
  )
  parser.add_argument("--draft", default="bundled/draft")
  parser.add_argument("--target", default="bundled/target")
  parser.add_argument("--trees", default="chain:5,eagle,kary:2x5")
  parser.add_argument("--verifiers", default="traversal")
  parser.add_argument("--panel", default="token_level", help="'': none")
  parser.add_argument("--rows", type=int, default=8)
  parser.add_argument("--per_task", type=int, default=8)
  parser.add_argument("--rounds", type=int, default=9)
  flags = parser.parse_args(arguments)
  for name in ("rows", "per_task", "rounds"):
    if getattr(flags, name) < 1:
      parser.error(f"--{name}={getattr(flags, name)}: give 1 or more")
  return flags


def main(arguments: list[str]) -> int:
  """The command; returns its exit status."""
  flags = parse(arguments)
  questions = questions_lib.limit(
    questions_lib.load_questions("minibench"), per_task=flags.per_task
  )
  asked = [question.turns[0] for question in questions]
  try:
    trees = common.parse_trees(flags.trees, common.tree)
    pair = tv_jax.load(flags.draft, flags.target)
    rows = [measure(pair, asked, tree, flags) for tree in trees]
  except (ValueError, OSError) as error:
    print(error, file=sys.stderr)
    return 2
  header = [
    "tree",
    "in use where batches wait",
    "s",
    "batches / rows (quartiles)",
  ]
  beside = f", and {flags.panel}'s law" if flags.panel else ""
  what = f"{flags.verifiers}{beside}"
  title = f"{len(asked)} prompts, {flags.rows} rows, {what}"
  common.Table(title=title, header=header, rows=rows).show()
  return 0


if __name__ == "__main__":
  cli.until_told(lambda heard: main(sys.argv[1:]))
