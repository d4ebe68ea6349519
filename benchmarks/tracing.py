"""What Python does before a compiler is asked: a generation traced and lowered.

    JAX_PLATFORMS=cpu python -m benchmarks.tracing

Processor seconds, by shapes alone. Every start takes them for each program,
also where a compilation cache has it.
"""

from __future__ import annotations

import argparse
import statistics
import sys
import time

import jax

from benchmarks import common, gpu_kernels, gpu_shapes
from tv_jax.edge import cli
from tv_jax.verifiers import VERIFIERS


def seconds(pair: tuple[str, str], tree, rule: str) -> tuple[float, float]:
  """To trace, and to lower, with nothing kept from before."""
  function, arguments = gpu_kernels.generation(pair, "bfloat16", tree, rule)
  jax.clear_caches()
  begin = time.process_time()
  traced = jax.jit(function).trace(*arguments)
  middle = time.process_time()
  traced.lower()
  return middle - begin, time.process_time() - middle


def parse(arguments: list[str]) -> argparse.Namespace:
  """The command line."""
  parser = argparse.ArgumentParser(
    prog="python -m benchmarks.tracing",
    description=__doc__,
    formatter_class=argparse.RawDescriptionHelpFormatter,
  )
  for name, default in (("draft", "Llama-3.2-1B"), ("target", "Llama-3.1-8B")):
    parser.add_argument(f"--{name}", default=default, choices=gpu_shapes.MODELS)
  parser.add_argument("--trees", default="chain:5,eagle")
  parser.add_argument("--verifiers", default="traversal", choices=VERIFIERS)
  parser.add_argument("--rounds", type=int, default=3)
  flags = parser.parse_args(arguments)
  if flags.rounds < 1:
    parser.error(f"--rounds={flags.rounds}: give 1 or more")
  return flags


def main(arguments: list[str]) -> int:
  """The command; returns its exit status."""
  flags = parse(arguments)
  try:
    trees = common.parse_trees(flags.trees, common.tree)
  except ValueError as error:
    print(error, file=sys.stderr)
    return 2
  pair, rows = (flags.draft, flags.target), []
  for name, tree in trees.items():
    found = [seconds(pair, tree, flags.verifiers) for _ in range(flags.rounds)]
    middle = map(statistics.median, zip(*found, strict=True))
    rows.append([name, *(f"{one:.2f}" for one in middle)])
  header = ["tree", "to trace, s", "to lower, s"]
  title = f"{' and '.join(pair)}, {flags.verifiers}: medians of {flags.rounds}"
  common.Table(title=title, header=header, rows=rows).show()
  return 0


if __name__ == "__main__":
  cli.until_told(lambda heard: main(sys.argv[1:]))
