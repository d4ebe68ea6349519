"""Times a forward pass over 1 to 63 tokens, and this machine's limits.

  python -m benchmarks.passes bundled/target

Speculative decoding pays if a pass over a tree takes hardly longer than a pass
over one token. The same run measures two limits of the machine: how fast the
cores read memory, and how fast they multiply large float32 matrices. A pass
takes at least the longer of two times: reading its weights once, and doing its
multiplications. (If all weights fit in the cores' caches, a pass can take less
than the first time.)

The numbers of tokens take turns, in a new random order in each round. Times are
medians over rounds. Only ratios carry over to another machine.
"""

from __future__ import annotations

import argparse
import dataclasses
import functools
import math
import time
from concurrent.futures import ThreadPoolExecutor

import jax
import jax.numpy as jnp
import numpy as np

from benchmarks import common
from tv_jax import models
from tv_jax.io import machine
from tv_jax.io.reading import path_of
from tv_jax.models import causal_pass
from tv_jax.models.quantised import is_quantised

TOKENS = 1, 2, 4, 6, 8, 16, 26, 63
SLOTS = 128  # of the cache
_STREAM, _MATRIX, _TIMES = 1 << 29, 2048, 5


@functools.partial(jax.jit, static_argnums=0, donate_argnums=3)
def forward(module, params, tokens, cache):
  """Returns logits [1, T, V], and the cache with its length unchanged."""
  logits, _, after = causal_pass(module, params, (tokens,), cache)
  return logits, dataclasses.replace(after, length=cache.length)


def seconds(run) -> float:
  """Returns the seconds of a call, until its results are ready."""
  begin = time.perf_counter()
  jax.block_until_ready(run())
  return time.perf_counter() - begin


def limits() -> tuple[float, float]:
  """Returns bytes read, and float32 operations, per second."""
  matrix, multiply = jnp.ones((_MATRIX, _MATRIX)), jax.jit(jnp.matmul)
  parts = np.array_split(np.ones(_STREAM // 4, np.float32), machine.cores())
  with ThreadPoolExecutor(len(parts)) as threads:
    reading, multiplying = (
      min(seconds(run) for _ in range(_TIMES))
      for run in (
        lambda: [*threads.map(np.max, parts)],
        lambda: multiply(matrix, matrix),
      )
    )
  return _STREAM / reading, 2 * _MATRIX**3 / multiplying


def measure(model: models.Model, sizes, rounds: int) -> dict:
  """Returns seconds [rounds] of a pass, by its number of tokens."""
  caches = {size: model.init_cache(1, SLOTS) for size in sizes}
  rng = np.random.default_rng(0)

  def run(size, _):
    tokens = rng.integers(model.config.vocab_size, size=(1, size))
    tokens = jnp.asarray(tokens, jnp.int32)

    def one():
      logits, caches[size] = forward(
        model.module, model.params, tokens, caches[size]
      )
      return logits

    return seconds(one)

  methods = {size: functools.partial(run, size) for size in sizes}
  for size, method in methods.items():
    common.say(f"warming {size} tokens")
    method(0)
  return common.race(methods, rounds, seed=0)


def weights(model: models.Model) -> tuple[int, int]:
  """Returns the number of weights that a pass reads, and their bytes."""
  params = dict(model.params)
  if "unembedding" in params:  # then a pass reads few rows of the embedding
    del params["embedding"]
  leaves = jax.tree.leaves(params, is_leaf=is_quantised)
  kept = [x for x in leaves if len(x.shape) > 1]
  count = sum(math.prod(x.shape) for x in kept)
  return count, sum(x.nbytes for x in jax.tree.leaves(kept))


def main() -> None:
  """Reads the flags and runs."""
  parser = argparse.ArgumentParser("benchmarks.passes")
  parser.add_argument("model", help="a target, as tv_jax.load takes it")
  parser.add_argument("--dtype", default="float32", help="of its weights")
  parser.add_argument("--weights", default="stored", help="or dequantised")
  parser.add_argument("--tokens", nargs="+", type=int, default=TOKENS)
  parser.add_argument("--rounds", type=int, default=15)
  flags = parser.parse_args()
  model = models.load(
    path_of(flags.model), dtype=flags.dtype, weights=flags.weights
  )
  reading, multiplying = limits()
  times = measure(model, flags.tokens, flags.rounds)
  middle = {size: float(np.median(x)) for size, x in times.items()}
  count, held = weights(model)
  least = {
    size: max(held / reading, 2 * count * size / multiplying) for size in middle
  }
  first = min(middle)
  common.setting("passes")
  print(
    f"{count / 1e6:.0f} million weights, {held / 1e6:.0f} MB;"
    f" memory {reading / 1e9:.1f} GB/s, sgemm {multiplying / 1e9:.0f} GFLOP/s"
  )
  common.show(
    f"Forward passes, {machine.cores()} cores",
    ["tokens", "ms", f"relative to {first}", "least ms", "share of the limit"],
    [
      [
        str(size),
        f"{1e3 * value:.3g}",
        f"{value / middle[first]:.2f}",
        f"{1e3 * least[size]:.3g}",
        f"{least[size] / value:.0%}",
      ]
      for size, value in middle.items()
    ],
  )


if __name__ == "__main__":
  main()
