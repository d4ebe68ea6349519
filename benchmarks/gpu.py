"""Times cycles on this machine's GPU, at the paper's shapes.

    python -m benchmarks.gpu
    JAX_PLATFORMS=cpu python -m benchmarks.gpu --toy

Needs a GPU of 48 GB, and neither checkpoints nor data. The table compares each
time with a lower limit: the bytes that must move, divided by the chip's memory
bandwidth.

Weights are random, so acceptance means nothing: times are per cycle. The column
"tokens/s at the paper's length" is computed from the cycle's time and the
acceptance length in the paper (table 1, the mean over tasks at temperature 1).
It is not a measured speed. `benchmarks.verify` times rules on a GPU too;
`tv_jax.audit` tests the distribution of its samples.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable, Iterator

import jax
import numpy as np

import tv_jax
from benchmarks import common, gpu_shapes
from experiments import paper
from tv_jax import tree as tree_lib
from tv_jax.engine.cycle import CHUNK
from tv_jax.engine.decode import cache_slots, padded
from tv_jax.engine.pair import Pair
from tv_jax.io.errors import UserError

# Memory bandwidth in bytes per second, by jax's name of the device, from the
# makers' data sheets.
CHIPS = {
  "NVIDIA H200": 4.8e12,
  "NVIDIA H100 80GB HBM3": 3.35e12,
  "NVIDIA A100-SXM4-80GB": 2.039e12,
  "NVIDIA RTX A6000": 0.768e12,
}
PAPERS = "Llama-3.2-1B", "Llama-3.1-8B"
PROMPT = 100
# New tokens of a short and a long generation, which share one program.
SHORT, LONG = 65, 128
ROWS = 16  # batch size
REPEATS = 3  # number of times that each time is measured; the least counts
HEADER = ["", "ms", "GB", "least ms", "share", "tokens/s"]


def row(name: str, seconds: float, moved: int, tokens: float | None = None):
  """Returns a table's row: a time, and the limit by the memory's bandwidth."""
  cells = [name, f"{1e3 * seconds:.3f}", f"{moved / 1e9:.2f}", "", ""]
  if bandwidth := CHIPS.get(jax.devices()[0].device_kind):
    least = moved / bandwidth
    cells[3:] = [f"{1e3 * least:.3f}", f"{100 * least / seconds:.0f} %"]
  cells.append(f"{tokens / seconds:.0f}" if tokens else "-")
  common.say(" | ".join(cells))
  return cells


def least(run: Callable) -> float:
  """Returns the least time of `REPEATS` calls, after an untimed call."""
  times = []
  for _ in range(REPEATS + 1):
    begin = time.perf_counter()
    jax.block_until_ready(run())
    times.append(time.perf_counter() - begin)
  return min(times[1:])


def cycle(pair: Pair, tree: str | None, rule: str | None, rows: int = 1):
  """Times a cycle, by the difference of a long and a short generation.

  Returns:
    The seconds, and the bytes that must be moved.
  """
  vocabulary = pair.target.config.vocab_size
  rng = np.random.default_rng(0)
  prompts = rng.integers(3, vocabulary, (rows, PROMPT)).tolist()

  def run(new):
    return tv_jax.generate(
      pair,
      prompts,
      tree=tree or "chain:1",
      verifier=rule or "plain",
      panel=None,
      max_new_tokens=new,
      batch_size=rows,
      ends=(),
      progress=False,
    )

  times = [least(lambda new=new: run(new).tokens) for new in (SHORT, LONG)]
  results = run(SHORT), run(LONG)
  cycles = [max(map(len, result.gained)) for result in results]
  shape = tree_lib.parse(tree) if tree else None
  slots = cache_slots(results[1].config.static, padded(PROMPT, CHUNK) + 1, LONG)
  moved = gpu_shapes.bytes_of_pass(pair.target, slots, rows)
  if shape:
    assert pair.draft
    moved = gpu_shapes.bytes_of_cycle(
      pair.target, pair.draft, shape, slots, rows
    )
  return (times[1] - times[0]) / (cycles[1] - cycles[0]), moved


def cycles(pair: Pair, head: Pair, trees: list[str], rows: int) -> Iterator:
  """Yields rows: plain decoding, trees, rules, an EAGLE head, a batch."""
  first = trees[0]
  cases = [
    ("plain", pair, None, None, 1),
    *((f"{tree}, traversal", pair, tree, "traversal", 1) for tree in trees),
    (f"{first}, token_level", pair, first, "token_level", 1),
    (f"{first}, traversal, EAGLE head", head, first, "traversal", 1),
    (f"plain, {rows} rows", pair, None, None, rows),
    (f"{first}, traversal, {rows} rows", pair, first, "traversal", rows),
  ]
  for name, models, tree, rule, many in cases:
    seconds, moved = cycle(models, tree, rule, many)
    length = None if rule else 1.0
    printed = paper.lengths(paper.LLAMA3, tree, 1) if tree else None
    if printed is not None and models is pair:
      length = printed[rule]
    yield row(name, seconds, moved, length and length * many)


def main() -> None:
  """Runs the command."""
  parser = argparse.ArgumentParser(
    "benchmarks.gpu",
    description=__doc__,
    formatter_class=argparse.RawDescriptionHelpFormatter,
  )
  parser.add_argument("--toy", action="store_true", help="without a GPU")
  toy = parser.parse_args().toy
  if jax.default_backend() != "gpu" and not toy:
    raise UserError("jax sees no GPU here: give --toy to try it out")
  names, dtype, rows = PAPERS, "bfloat16", ROWS
  trees = ["eagle", "chain:5", "kary:2x5"]
  if toy:
    names, dtype, trees, rows = ("toy draft", "toy"), "float32", ["kary:2x2"], 2
  common.setting("gpu")
  draft, target = (
    gpu_shapes.model(gpu_shapes.config(name, dtype), gpu_shapes.random_of(seed))
    for seed, name in enumerate(names)
  )
  head = gpu_shapes.head(target, gpu_shapes.random_of(2))
  pair = Pair(target=target, draft=draft)
  other = Pair(target=target, draft=head)
  title = f"Cycles of {' and '.join(names)}, {dtype}, random weights"
  common.show(title, HEADER, [*cycles(pair, other, trees, rows)])


if __name__ == "__main__":
  main()
