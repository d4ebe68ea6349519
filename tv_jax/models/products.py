"""Weights of products, and the two other ways in which they can be kept.

Checkpoints have a weight as PyTorch does, [out, in], and so it stays on a GPU.

Turned, it lies [in, out], which XLA's products read faster on a CPU. With
float32 weights of SmolLM2's shape (30 layers, width 576, V = 49152), a pass
took 45 ms instead of 62 over one token, 91 instead of 108 over six and 197
instead of 222 over 26 (two cores that others used too; the least of nine, in
turn).

Quantised, it has eight bits and a scale for each channel, half the bytes of
every pass. A model of such weights is a model of its own. As a target its own
law is kept exactly, and as a draft it draws from its own law.

A channel is one output of a product: a row of a matrix [out, in]. Norms and
biases stay as they are, and so does an embedding that is only looked up.
Letters as in decoder.py.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from flax import struct
from flax.core import meta

from tv_jax.models.config import Config

# By a weight's axes, those that come out.
CHANNELS = {
  "GPCE": "GPC",
  "GPCI": "GPC",
  "EGRC": "E",
  "F2E": "F2",
  "EF": "E",
  "EI": "E",
  "EJ": "E",
  "VE": "V",
  "UE": "U",
}
LARGEST = 127
_AT_ONCE = 1 << 22  # numbers


def channels(name: str, axes: str, config: Config) -> str:
  """Returns the axes of a parameter that come out of its product.

  There are none if it is of no product. An embedding is of one only if it is
  the unembedding too.
  """
  looked_up = name == "embedding" and not config.tie_word_embeddings
  return "" if looked_up else CHANNELS.get(axes, "")


class Turned(struct.PyTreeNode, meta.AxisMetadata):
  """A weight that lies [in, out].

  A module that asks for the parameter gets it unboxed. In a compiled program
  that moves nothing: products and lookups read the matrix as it lies.

  Attributes:
    matrix: [I, X]
    shape: Of the weight as checkpoints have it.
  """

  matrix: jax.Array | np.ndarray
  shape: tuple[int, ...] = struct.field(pytree_node=False)

  def unbox(self):
    """Returns the weight as checkpoints have it; NumPy's if the matrix is."""
    return self.matrix.T.reshape(self.shape)

  def replace_boxed(self, val):
    """Returns another one of this shape."""
    return self.replace(matrix=val.reshape(self.matrix.shape[::-1]).T)

  def add_axis(self, index, params):
    """Refuses transformations that stack parameters: no model here has one."""
    raise NotImplementedError("turned weights are not stacked")

  remove_axis = add_axis


def turn(weight: np.ndarray, channels: int) -> Turned:
  """Turns a weight whose first axes, `channels` many, are outputs."""
  matrix = weight.reshape(math.prod(weight.shape[:channels]), -1)
  return Turned(np.ascontiguousarray(matrix.T), weight.shape)


def is_turned(weight) -> bool:
  """Returns whether a weight lies [in, out]."""
  return isinstance(weight, Turned)


def unboxed(weight):
  """Returns a weight as checkpoints have it, whichever way it lies."""
  return weight.unbox() if is_turned(weight) else weight


def are_turned(params: dict) -> bool:
  """Returns whether some of these parameters are."""
  return any(map(is_turned, jax.tree.leaves(params, is_leaf=is_turned)))


class Quantised(NamedTuple):
  """A weight of eight bits."""

  values: jax.Array | np.ndarray  # int8
  scale: jax.Array | np.ndarray  # float32: the first of its axes


def some_rows(matrix, which):
  """Returns rows of a matrix [out, in], kept as that is kept.

  Args:
    matrix: The weight, whichever way it is kept.
    which: Of its outputs: a slice or their numbers.
  """
  if isinstance(matrix, Quantised):
    return Quantised(matrix.values[which], matrix.scale[which])
  if isinstance(matrix, Turned):
    own = matrix.matrix[:, which]
    return Turned(own, own.shape[::-1])
  return matrix[which]


def quantise(weights: np.ndarray, channels: int) -> Quantised:
  """Rounds to the nearest of 255 values; a channel's largest becomes 127.

  Some rows at a time, so that the host never holds all of them in float32.

  Args:
    weights: Finite, of any floating type.
    channels: How many of the first axes are outputs.
  """
  kept = weights.shape[:channels]
  rows = weights.reshape(math.prod(kept), -1)
  values = np.empty(rows.shape, np.int8)
  scale = np.empty(len(rows), np.float32)
  step = max(1, _AT_ONCE // max(1, rows.shape[1]))
  for at in range(0, len(rows), step):
    own = slice(at, at + step)
    block = rows[own].astype(np.float32)
    most = np.abs(block).max(axis=1, initial=0)
    least = most / LARGEST
    scale[own] = np.where(least > 0, least, 1)  # so little may be 0
    block /= scale[own, None]
    values[own] = np.rint(block, out=block)
  return Quantised(values.reshape(weights.shape), scale.reshape(kept))


def product(
  x: jax.Array, weights: jax.Array | Quantised, dtype=None
) -> jax.Array:
  """Contracts `x` [B, T, I] with `weights` [X, I], as [B, T, X] in `dtype`.

  Scales are applied after the product: whole numbers are exact in every dtype.
  """
  if not isinstance(weights, Quantised):
    return jnp.einsum("BTI,XI->BTX", x, weights, preferred_element_type=dtype)
  y = jnp.einsum(
    "BTI,XI->BTX",
    x,
    weights.values.astype(x.dtype),
    preferred_element_type=jnp.float32,
  )
  return (y * weights.scale[None, None]).astype(dtype or x.dtype)


def project(
  x: jax.Array, weights: jax.Array | Quantised, channels: int | None = None
) -> jax.Array:
  """Contracts `x` [B, T, I] with the last axes of `weights`.

  As a plain product of matrices: given more axes, XLA transposes weights.

  Args:
    x: What goes in.
    weights: Of any axes, the last of which are I numbers together.
    channels: How many axes come out; by default all but the last.

  Returns:
    [B, T, ..]
  """
  whole = weights.values if isinstance(weights, Quantised) else weights
  kept = whole.shape[: channels or -1]

  def as_matrix(x):
    return x.reshape(math.prod(kept), *([-1] if x.ndim > len(kept) else []))

  matrix = jax.tree.map(as_matrix, weights)
  return product(x, matrix).reshape(*x.shape[:2], *kept)
