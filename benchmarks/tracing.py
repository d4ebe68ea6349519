"""What Python does before a compiler is asked: a generation traced and lowered.

    JAX_PLATFORMS=cpu python -m benchmarks.tracing

Processor seconds, by shapes alone. Every start takes them for each program,
also where a compilation cache has it.
"""

from __future__ import annotations

import statistics
import time

import jax

from benchmarks import common, gpu_kernels, gpu_shapes
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


def main(arguments: list[str]) -> None:
  """Reads the flags, measures, prints the table."""
  parser = common.Parser("tracing", __doc__)
  gpu_shapes.add_pair(parser)
  parser.add_argument("--trees", default="chain:5,eagle")
  parser.add_argument("--verifiers", default="traversal", choices=VERIFIERS)
  parser.add_argument("--rounds", type=common.at_least(1), default=3)
  given = parser.parse_args(arguments)
  pair, rows = (given.draft, given.target), []
  for name, tree in common.parse_trees(given.trees).items():
    found = [seconds(pair, tree, given.verifiers) for _ in range(given.rounds)]
    middle = map(statistics.median, zip(*found, strict=True))
    rows.append([name, *(f"{one:.2f}" for one in middle)])
  title = f"{' and '.join(pair)}, {given.verifiers}: medians of {given.rounds}"
  header = ["tree", "to trace, s", "to lower, s"]
  common.Table(title=title, header=header, rows=rows).show()


if __name__ == "__main__":
  common.run("tracing", main)
