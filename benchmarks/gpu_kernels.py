"""A cycle of the paper's pairs as a GPU would run it: kernels and bytes.

    JAX_PLATFORMS=cpu python -m benchmarks.gpu_kernels
    JAX_PLATFORMS=cpu python -m benchmarks.gpu_kernels --chip=a6000
    JAX_PLATFORMS=cpu python -m benchmarks.gpu_kernels --dtype=int8

Compiles whole generations for a GPU that need not be there (it takes a minute a
tree, and jax-cuda13-plugin and jax-cuda13-pjrt), counts the kernels of each
stage of a cycle, and the bytes that the stage must move: weights and caches
once a pass, laws once.

What a stage takes at least is the larger of two times: bytes over the
bandwidth of the chip's data sheet, and kernels times what one that moves next
to nothing takes in the mean, 1.5 us, as commit's did on an H100. There the
profiler counted the kernels that stand here, and two more at most; verification
took 1.5 to 2.5 times its least time, passes 1.3 to 1.8 times
(docs/performance.md).
"""

from __future__ import annotations

import argparse
import functools
import sys
from collections.abc import Callable

import jax

from benchmarks import common, gpu_program, gpu_shapes
from benchmarks.gpu_scale import CHIPS
from tv_jax.edge import cli
from tv_jax.engine import decoding
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
_SLOTS, _PROMPT, _NEW = 1024, 128, 128


def generation(
  pair: tuple[str, str], dtype: str, tree: Tree, rule: str
) -> tuple[Callable, tuple]:
  """What decodes, and the shapes of what it is given."""
  draft, target = (_shapes(name, dtype) for name in pair)
  plan = gpu_shapes.plan(target, draft, tree, rule)
  caches = functools.partial(
    gpu_shapes.empty_caches, target.config, draft.config, 1, _SLOTS
  )
  request = functools.partial(
    gpu_shapes.request, 1, _PROMPT, _NEW, target.config.vocab_size
  )
  return functools.partial(decoding.generate, plan, new=_NEW), (
    decoding.Params(target.params, draft.params),
    jax.eval_shape(request),
    jax.eval_shape(caches),
  )


def program(
  pair: tuple[str, str], dtype: str, tree: Tree, rule: str, chip: str
) -> gpu_program.Program:
  """A generation, compiled for `chip`."""
  function, arguments = generation(pair, dtype, tree, rule)
  return gpu_program.compile_for(
    function,
    *arguments,
    target=chip,
    options=gpu_program.CAPTURE,
    donate_argnums=2,
  )


def _shapes(name, dtype):
  config = gpu_shapes.config(name, dtype)
  return gpu_shapes.model(config, gpu_shapes.shapes_on(config))


def bytes_by_stage(
  pair: tuple[str, str], dtype: str, tree: Tree
) -> dict[str, int]:
  """What each stage must move."""
  draft, target = (_shapes(name, dtype) for name in pair)
  law = 4 * target.config.vocab_size
  own = target.config, draft.config
  rows = sum(
    2
    * config.num_hidden_layers
    * config.num_key_value_heads
    * config.head_dim
    * 2  # bytes of a bfloat16
    for config in own
  )
  return {
    # A pass a level, and each inner node's law written once.
    "draft": tree.max_depth * gpu_shapes.bytes_of_pass(draft, _SLOTS)
    + law * len(tree.inner),
    "target": gpu_shapes.bytes_of_pass(target, _SLOTS) + law * len(tree),
    "verify": law * (len(tree) + len(tree.inner)),
    # A path's rows of both caches, read and written.
    "commit": 2 * rows * (tree.max_depth + 1),
  }


def estimate(
  pair, dtype: str, tree: Tree, rule: str, chip: str
) -> common.Table:
  """Kernels, bytes and the least time of each stage."""
  kernels = program(pair, dtype, tree, rule, chip).kernels_by(_STAGE)
  moved = bytes_by_stage(pair, dtype, tree)
  rows, whole = [], 0.0
  for stage in STAGES:
    by_bytes = moved[stage] / BANDWIDTH[chip]
    by_kernels = kernels[stage] * KERNEL
    least = max(by_bytes, by_kernels)
    whole += least
    rows.append(
      [
        stage,
        f"{kernels[stage]}",
        f"{moved[stage] / 1e9:.3f}",
        f"{1e3 * by_bytes:.3f}",
        f"{1e3 * by_kernels:.3f}",
        f"{1e3 * least:.3f}",
      ]
    )
  total = f"{sum(moved.values()) / 1e9:.3f}"
  count = f"{sum(kernels[stage] for stage in STAGES)}"
  rows.append(["cycle", count, total, "", "", f"{1e3 * whole:.3f}"])
  header = ["", "kernels", "GB", "ms by bytes", "ms by kernels", "at least"]
  return common.Table(
    title=f"{' and '.join(pair)}, {dtype}, {rule} on {tree!r}, {chip}",
    header=header,
    rows=rows,
  )


def parse(arguments: list[str]) -> argparse.Namespace:
  """The command line."""
  parser = argparse.ArgumentParser(
    prog="python -m benchmarks.gpu_kernels",
    description=__doc__,
    formatter_class=argparse.RawDescriptionHelpFormatter,
  )
  parser.add_argument("--chip", choices=sorted(BANDWIDTH), default="h100")
  parser.add_argument("--trees", default="eagle,kary:2x5")
  parser.add_argument("--verifiers", default="traversal", choices=VERIFIERS)
  parser.add_argument(
    "--dtype", choices=["bfloat16", "int8"], default="bfloat16"
  )
  parser.add_argument(
    "--draft", default="Llama-3.2-1B", choices=gpu_shapes.MODELS
  )
  parser.add_argument(
    "--target", default="Llama-3.1-8B", choices=gpu_shapes.MODELS
  )
  return parser.parse_args(arguments)


def main(arguments: list[str]) -> int:
  """The command; returns its exit status."""
  flags = parse(arguments)
  if reason := gpu_program.why_not():
    print(reason, file=sys.stderr)
    return 2
  try:
    trees = common.parse_trees(flags.trees, common.tree)
  except ValueError as error:
    print(error, file=sys.stderr)
    return 2
  for tree in trees.values():
    pair = flags.draft, flags.target
    estimate(pair, flags.dtype, tree, flags.verifiers, flags.chip).show()
  return 0


if __name__ == "__main__":
  cli.until_told(lambda heard: main(sys.argv[1:]))
