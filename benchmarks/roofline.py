"""Times passes of both models beside what this machine could do.

    python -m benchmarks.roofline
    python -m benchmarks.roofline --draft=DIR --target=DIR

First the machine: the bandwidth of its memory by a maximum over more than its
caches hold, and its arithmetic by a large product. Then passes over T tokens,
inside a loop, each beside its limit: the larger of bytes of weights and cache
over the one, and of operations over the other. (Weights that fit in a cache are
read faster than that.) `tv_jax.profile` times the stages of a cycle.

Without checkpoints, random weights of the shape in --shape are timed. The least
of --rounds times counts: other work on the machine can only add.
"""

import dataclasses
import functools

import jax
import jax.numpy as jnp

from benchmarks import common, gpu_shapes
from benchmarks.gpu_times import TOY, least, one_pass
from tv_jax.models import families

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


def pass_time(model, rows: int, T: int, rounds: int) -> float:
  """Seconds of one pass over T tokens of each row."""
  scale = dataclasses.replace(TOY, loops=10, repeats=rounds)
  return one_pass(scale, model, rows, T, _SLOTS, _PROMPT)(model.params)


def operations(model, rows: int, T: int) -> int:
  """Of its products: two for each weight and token."""
  leaves = families.leaves(model.config)
  weights = sum(leaf.size for leaf in leaves if len(leaf.axes) > 1)
  if not model.config.tie_word_embeddings:
    weights -= model.config.vocab_size * model.config.hidden_size
  return 2 * weights * rows * T


def passes(name: str, model, speeds, rounds: int) -> common.Table:
  """Passes over several tokens, and of several rows, beside one."""
  bandwidth, arithmetic = speeds
  table, one = [], None
  for rows, T in (*_SIZES, *_ROWS):
    seconds = pass_time(model, rows, T, rounds)
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


def main(arguments: list[str]) -> None:
  """Reads the flags and runs."""
  parser = common.Parser("roofline", __doc__)
  common.add_pair(parser)
  given = parser.parse_args(arguments)
  pair = common.read_pair(given)
  parts = common.setting("roofline", arguments)
  parts += common.describe(pair, given)
  speeds = machine(pair.target.config.dtype)
  parts.append(
    f"Memory {speeds[0] / 1e9:.1f} GB/s, products {speeds[1] / 1e9:.0f} GFLOP/s"
  )
  print(parts[-1], flush=True)
  for name in ("target", "draft"):
    common.say(f"passes of the {name}")
    model = getattr(pair, name)
    parts.append(passes(name, model, speeds, given.rounds).show())
  common.write(given.out, parts)


if __name__ == "__main__":
  common.run("roofline", main)
