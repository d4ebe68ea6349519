"""Programs that run a few times on small arrays, whatever there is of these."""

from collections.abc import Callable

import jax
import numpy as np


def jit(function):
  """Compiles as `jax.jit` does, but on a CPU without LLVM's optimisation.

  A certificate spends its time compiling, not running. XLA's own passes, which
  decide what is computed in which order, are as ever.
  """
  if jax.default_backend() != "cpu":
    return jax.jit(function)
  options = {"xla_backend_optimization_level": 0}
  return jax.jit(function, compiler_options=options)


def in_pieces(function: Callable, size: int | None, *trees):
  """Computes a function's results on all rows, `size` rows at a time.

  Args:
    function: Of `size` rows of each, to a tree of as many rows.
    size: The last piece is filled up with its first row: one program serves.
      None takes all at once, their number rounded up to a power of two.
    *trees: Arrays, or trees of arrays, of as many rows each, one at least.

  Returns:
    The tree, of all rows.
  """
  count, parts = len(jax.tree.leaves(trees)[0]), []
  size = size or 1 << (count - 1).bit_length()
  for start in range(0, count, size):
    rows = np.arange(start, start + size)
    rows[rows >= count] = start
    piece = jax.tree.map(lambda array, rows=rows: array[rows], trees)
    parts.append(jax.tree.map(np.asarray, function(*piece)))
  return jax.tree.map(lambda *rows: np.concatenate(rows)[:count], *parts)
