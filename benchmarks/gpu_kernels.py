r"""A cycle of the paper's pairs as a GPU would run it: kernels and bytes.

    JAX_PLATFORMS=cpu python -m benchmarks.gpu_kernels
    JAX_PLATFORMS=cpu python -m benchmarks.gpu_kernels --chip=a6000
    JAX_PLATFORMS=cpu python -m benchmarks.gpu_kernels --chip=h200 \
      --target=Qwen3-8B --draft=DSpark

Compiles whole generations for a GPU that need not be there (it takes a minute
per tree, and jax-cuda13-plugin and jax-cuda13-pjrt), counts the kernels of each
stage of a cycle, and the bytes that the stage must move: weights and caches
once per pass, laws once. (A DSpark draft makes one pass for all levels, and
reads one matrix of its Markov head for each.)

The least time of a stage is the larger of two: bytes over the bandwidth of the
chip's data sheet, and kernels times 1.5 us, the mean of commit's on an H100,
which move next to nothing. There the profiler counted these kernels and at most
two more; verification took 1.5 to 2.5 times its least time, passes 1.3 to 1.8
times (docs/performance.md).
"""

from __future__ import annotations

import argparse
import functools

from benchmarks import common, gpu_program, gpu_shapes
from benchmarks.gpu import CHIPS
from tv_jax.engine.decode import advance
from tv_jax.models import Model
from tv_jax.tree import Tree
from tv_jax.verifiers import VERIFIERS

# Data sheets' bandwidth, by target description.
BANDWIDTH = {
  "h100": CHIPS["NVIDIA H100 80GB HBM3"],
  "h200": CHIPS["NVIDIA H200"],
  "a6000": CHIPS["NVIDIA RTX A6000"],
}
KERNEL = 1.5e-6  # seconds of one that does next to nothing, in a graph
STAGES = "draft", "target", "verify", "commit"
_STAGE = rf"while/body/({'|'.join(STAGES)})/"
# Of caches, for prompts of so many tokens.
_SLOTS, _LONGEST = 1024, 768
DSPARK = "DSpark"  # the draft that is made for the target


def models(pair: tuple[str, str], dtype: str) -> tuple[Model, Model]:
  """Returns draft and target, as shapes."""

  def shapes(name):
    config = gpu_shapes.config(name, dtype)
    return gpu_shapes.model(config, gpu_shapes.shapes_on())

  target = shapes(pair[1])
  if pair[0] == DSPARK:
    make = gpu_shapes.shapes_on()
    return gpu_shapes.block_draft(target, make), target
  return shapes(pair[0]), target


def bytes_by_stage(draft: Model, target: Model, tree: Tree) -> dict[str, int]:
  """Counts what each stage must move."""
  law = 4 * target.config.vocab_size
  rows = sum(
    gpu_shapes.bytes_of_pass(model, 1) - gpu_shapes.bytes_of_pass(model, 0)
    for model in (target, draft)
  )
  return {
    # Each inner node's law is written once.
    "draft": gpu_shapes.bytes_of_draft(draft, tree, _SLOTS)
    + law * len(tree.inner),
    "target": gpu_shapes.bytes_of_pass(target, _SLOTS) + law * len(tree),
    "verify": law * (len(tree) + len(tree.inner)),
    # A path's rows of both caches, read and written.
    "commit": 2 * rows * (tree.max_depth + 1),
  }


def estimate(pair, dtype: str, tree: Tree, rule: str, chip: str) -> None:
  """Prints kernels, bytes and the least time of each stage."""
  draft, target = models(pair, dtype)
  config = gpu_shapes.decoding(target, draft, tree, rule)
  compiled = gpu_program.compile_for(
    functools.partial(advance, config.static()),
    *gpu_shapes.arguments(config, target, draft, 1, _LONGEST),
    target=chip,
    options=gpu_program.CAPTURE,
    donate_argnums=2,
  )
  kernels = compiled.kernels_by(_STAGE)
  moved = bytes_by_stage(draft, target, tree)
  rows, whole = [], 0.0
  for stage in STAGES:
    times = moved[stage] / BANDWIDTH[chip], kernels[stage] * KERNEL
    whole += max(times)
    cells = [f"{1e3 * time:.3f}" for time in (*times, max(times))]
    gigabytes = f"{moved[stage] / 1e9:.3f}"
    rows.append([stage, f"{kernels[stage]}", gigabytes, *cells])
  total = f"{sum(moved.values()) / 1e9:.3f}"
  count = f"{sum(kernels[stage] for stage in STAGES)}"
  rows.append(["cycle", count, total, "", "", f"{1e3 * whole:.3f}"])
  header = ["", "kernels", "GB", "ms by bytes", "ms by kernels", "at least"]
  title = f"{' and '.join(pair)}, {dtype}, {rule} on {tree!r}, {chip}"
  common.show(title, header, rows)


def main() -> None:
  """Reads the flags, compiles, prints a table for each tree."""
  parser = argparse.ArgumentParser("benchmarks.gpu_kernels")
  parser.add_argument("--chip", choices=sorted(BANDWIDTH), default="h100")
  parser.add_argument("--trees", nargs="+", default=["eagle", "kary:2x5"])
  parser.add_argument("--verifier", default="traversal", choices=VERIFIERS)
  parser.add_argument("--draft", default="Llama-3.2-1B", help="or DSpark")
  parser.add_argument("--target", default="Llama-3.1-8B")
  options = parser.parse_args()
  if reason := gpu_program.why_not():
    raise ValueError(reason)
  pair = options.draft, options.target
  for name in options.trees:
    tree = common.tree(name)
    estimate(pair, "bfloat16", tree, options.verifier, options.chip)


if __name__ == "__main__":
  main()
