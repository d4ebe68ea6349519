"""What this machine could do, and what it does: passes and a cycle's stages.

    python -m benchmarks.roofline
    python -m benchmarks.roofline --draft=DIR --target=DIR --trees=eagle

First the machine: what its memory gives to a maximum over more than its caches
hold, and its arithmetic to a large product. Then passes of both models over T
tokens, inside a loop, each beside its limit: the larger of weights and cache
over the one, and of operations over the other. (Weights that fit in a cache are
read faster than that.) Then the stages of a cycle on each tree, as
`tv_jax.profile` has them.

Without checkpoints, random weights in the shape of the bundled pair are timed.
The least of --rounds times counts: other work on the machine can only add.
"""

import dataclasses
import functools
import sys
from collections.abc import Sequence

import jax
import jax.numpy as jnp

import tv_jax
from benchmarks import common, gpu_shapes
from benchmarks.gpu_scale import TOY
from benchmarks.gpu_times import least, one_pass
from tv_jax.edge import cli
from tv_jax.models import families

FLAGS = common.flags_of_pairs()
_SIZES = ((1, 1), (1, 2), (1, 4), (1, 6), (1, 8), (1, 16), (1, 26), (1, 63))
_ROWS = ((16, 1),)
_SLOTS, _PROMPT = 256, 100


def machine(dtype) -> tuple[float, float]:
  """Bytes and operations a second."""
  size = 1 << 28
  array = jnp.ones(size // 4, jnp.float32)
  total = jax.jit(jnp.max).lower(array).compile()
  bandwidth = size / least(functools.partial(total, array), 5)
  n = 2048
  square = jnp.ones((n, n), dtype)
  product = jax.jit(jnp.matmul).lower(square, square).compile()
  return bandwidth, 2 * n**3 / least(lambda: product(square, square), 5)


def pass_time(model, rows: int, T: int) -> float:
  """Seconds of one pass over T tokens of each row."""
  scale = dataclasses.replace(TOY, loops=10, repeats=FLAGS.rounds)
  return one_pass(scale, model, rows, T, _SLOTS, _PROMPT)(model.params)


def operations(model, rows: int, T: int) -> int:
  """Of its products: two for each weight and token."""
  leaves = families.leaves(model.config)
  weights = sum(leaf.size for leaf in leaves if len(leaf.axes) > 1)
  if not model.config.tie_word_embeddings:
    weights -= model.config.vocab_size * model.config.hidden_size
  return 2 * weights * rows * T


def passes(name: str, model, speeds) -> common.Table:
  """Passes over several tokens, and of several rows, beside one."""
  bandwidth, arithmetic = speeds
  table, one = [], None
  for rows, T in (*_SIZES, *_ROWS):
    seconds = pass_time(model, rows, T)
    one = one or seconds
    moved = gpu_shapes.bytes_of_pass(model, _SLOTS, rows) / bandwidth
    limit = max(moved, operations(model, rows, T) / arithmetic)
    table.append(
      [
        f"{rows} x {T}",
        f"{1e6 * seconds:.0f}",
        f"{seconds / one:.2f}",
        f"{rows * T * one / seconds:.2f}",
        f"{1e6 * limit:.0f}",
        f"{limit / seconds:.2f}",
      ]
    )
  header = ["rows x T", "us", "of one", "tokens/s, of one", "limit us", "share"]
  return common.Table(title=f"Passes of the {name}", header=header, rows=table)


def stages(pair, asked, trees: dict) -> list[str]:
  """Where a cycle's time goes, on each tree."""
  parts = []
  for name, tree in trees.items():
    common.say(f"stages on {name}")
    found = tv_jax.profile(
      pair,
      asked[:1],
      tree=tree,
      panel=None,
      ends=(),
      max_new_tokens=FLAGS.tokens,
      seed=FLAGS.seed,
    )
    parts.append(f"```\n{found!r}\n```")
    print(f"\n{parts[-1]}", flush=True)
  return parts


def main(arguments: Sequence[str]) -> None:
  """Reads the flags and runs."""
  common.read_flags(FLAGS, arguments, __doc__)
  try:
    trees = common.parse_trees(" ".join(FLAGS.trees))
    pair, asked = common.read_pair(FLAGS, "independent")
    for tree in trees.values():
      common.check(pair, asked, {"tree": tree, "max_new_tokens": FLAGS.tokens})
  except ValueError as error:
    sys.exit(f"{error}")
  lines = common.setting("benchmarks.roofline", arguments[1:])
  lines.append(common.describe(pair, FLAGS.target is None))
  bandwidth, arithmetic = machine(pair.target.config.dtype)
  lines.append(
    f"Memory {bandwidth / 1e9:.1f} GB/s, products"
    f" {arithmetic / 1e9:.0f} GFLOP/s"
  )
  print("\n".join(lines), flush=True)
  parts = []
  for name in ("target", "draft"):
    common.say(f"passes of the {name}")
    table = passes(name, getattr(pair, name), (bandwidth, arithmetic))
    table.show()
    parts.append(table.markdown())
  parts += stages(pair, asked, trees)
  common.write_markdown(FLAGS.out, "Roofline", lines, parts)


if __name__ == "__main__":
  cli.until_told(lambda heard: main(sys.argv))
