"""What kernels are written in (Pallas, by way of Triton): rows in blocks.

A kernel holds vectors of 2^n numbers, indexes no vector, and has no choice of
platforms in it; and where it takes the least or the largest of numbers a NaN is
lost. So it selects instead.

Axes: V vocabulary, B blocks of it, K children of a node, n programs.
"""

from __future__ import annotations

from collections.abc import Callable

import jax
import jax.numpy as jnp
from jax.experimental import pallas as pl
from jax.experimental.pallas import triton

# Tokens of a row that one program takes.
_BLOCK = 8192
_WARPS = 8
# More children than these are gone through by a loop, not one by one.
_FEW = 8


def run(kernel, grid, out, *arguments, same=None):
  """Runs a kernel: CUDA by Triton; a CPU interprets it, which is slow.

  Args:
    kernel: Takes references to the arguments, then to what comes out.
    grid: How many programs there are, along each axis.
    out: Shapes of what comes out.
    *arguments: Arrays.
    same: By its place, the argument that an output overwrites.
  """

  def call(interpret):
    return pl.pallas_call(
      kernel,
      grid=grid,
      out_shape=out,
      input_output_aliases=same or {},
      interpret=interpret,
      compiler_params=triton.CompilerParams(num_warps=_WARPS),
      name=kernel.__name__,
    )

  return jax.lax.platform_dependent(
    *map(jnp.asarray, arguments), cpu=call(True), cuda=call(False)
  )


def width(count: int) -> int:
  """The next power of two."""
  return 1 << max(count - 1, 0).bit_length()


def count(V: int) -> int:
  """How many blocks a row is."""
  return -(-V // _size(V))


def _size(V: int) -> int:
  return min(_BLOCK, width(V))


def tokens(block, V) -> tuple[jax.Array, jax.Array]:
  """The tokens of a block, and which of them there are."""
  index = block * _size(V) + jnp.arange(_size(V), dtype=jnp.int32)
  return index, index < V


def load(rows, row, block, V) -> jax.Array:
  """A block of a row, and zeros where it has no more."""
  _, inside = tokens(block, V)
  place = rows.at[jnp.int32(row), pl.ds(block * _size(V), _size(V))]
  return triton.load(place, mask=inside, other=0)


def store(out, block, V, values) -> None:
  """Writes a block of [V]."""
  _, inside = tokens(block, V)
  place = out.at[pl.ds(block * _size(V), _size(V))]
  triton.store(place, values, mask=inside)


def vector(values, count: int) -> jax.Array:
  """The first `count` numbers of a vector, and zeros up to a power of two."""
  inside = jnp.arange(width(count), dtype=jnp.int32) < count
  place = values.at[pl.ds(0, width(count))]
  return triton.load(place, mask=inside, other=0)


def put(out, values, count: int) -> None:
  """Writes the first `count` of values to a vector."""
  inside = jnp.arange(len(values), dtype=jnp.int32) < count
  triton.store(out.at[pl.ds(0, len(values))], values, mask=inside)


def whole(rows, row, first: int, B: int) -> jax.Array:
  """The sum of B columns of a row, which has room for a power of two."""
  inside = jnp.arange(width(B), dtype=jnp.int32) < B
  place = rows.at[jnp.int32(row), pl.ds(first, width(B))]
  return jnp.sum(triton.load(place, mask=inside, other=0))


def pick(values, place) -> jax.Array:
  """values[place]."""
  here = jnp.arange(len(values), dtype=jnp.int32) == place
  return jnp.sum(jnp.where(here, values, 0))


def each(count: int, change: Callable, start):
  """change(count - 1, .. change(0, start)); few are written out."""
  if count > _FEW:
    return jax.lax.fori_loop(0, count, change, start)
  for i in range(count):
    start = change(i, start)
  return start
