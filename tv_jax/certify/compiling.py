"""Compiles programs that run a few times on small arrays of any length."""

from collections.abc import Callable

import jax
import numpy as np


def jit(function):
  """Compiles as `jax.jit` does, but on a CPU without LLVM's optimisation.

  A certificate spends its time compiling, not running. XLA's passes, which
  choose the operations and their order, are unchanged.
  """
  if jax.default_backend() != "cpu":
    return jax.jit(function)
  options = {"xla_backend_optimization_level": 0}
  return jax.jit(function, compiler_options=options)


def in_pieces(function: Callable, size: int, *trees):
  """Applies a function to all rows, `size` rows at a time.

  Args:
    function: Maps `size` rows of each argument to a pytree of `size` rows.
    size: Rows of a piece. Padding fills the last piece, so that all pieces
      share a compiled program.
    *trees: Arrays or pytrees of arrays with the same number of rows, at least
      one.

  Returns:
    The results of all rows.
  """
  count, parts = len(jax.tree.leaves(trees)[0]), []
  for start in range(0, count, size):
    rows = np.arange(start, start + size)
    rows[rows >= count] = start
    piece = jax.tree.map(lambda array, rows=rows: array[rows], trees)
    parts.append(jax.tree.map(np.asarray, function(*piece)))
  return jax.tree.map(lambda *rows: np.concatenate(rows)[:count], *parts)
