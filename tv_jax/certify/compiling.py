"""Programs that run a few times on small arrays, whatever there is of these."""

from collections.abc import Callable

import jax
import numpy as np


def jit(function):
  """`jax.jit` that skips LLVM's optimisation on a CPU.

  A certificate spends its time compiling, not running. XLA's own passes, which
  decide what is computed in which order, are as ever.
  """
  if jax.default_backend() != "cpu":
    return jax.jit(function)
  options = {"xla_backend_optimization_level": 0}
  return jax.jit(function, compiler_options=options)


def in_pieces(function: Callable, size: int, *arrays) -> list[np.ndarray]:
  """A function's results on all rows of the arrays, from `size` rows at a time.

  Args:
    function: Of `size` rows of each array, to a tuple of as many rows.
    size: The last piece is filled up with its first row: one program serves.
    *arrays: As many rows of each, one at least.

  Returns:
    The tuple, of all rows.
  """
  parts = []
  for start in range(0, len(arrays[0]), size):
    piece = [array[start : start + size] for array in arrays]
    missing = size - len(piece[0])
    filled = [
      np.concatenate([own, np.repeat(own[:1], missing, axis=0)])
      for own in piece
    ]
    parts.append([np.asarray(own) for own in function(*filled)])
  return [
    np.concatenate(own)[: len(arrays[0])] for own in zip(*parts, strict=True)
  ]
