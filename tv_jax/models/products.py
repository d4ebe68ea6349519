"""Which weights what goes through a model is multiplied with, and how they lie.

Checkpoints have them as PyTorch does, [out, in], and so they stay on a GPU. A
CPU takes less for a few tokens where they lie [in, out]:
what XLA calls there packs a matrix before it multiplies, and this way it has
less to move. Modules see them as checkpoints have them, either way.

Letters as in decoder.py.
"""

from __future__ import annotations

import jax
import numpy as np
from flax import struct
from flax.core import meta

from tv_jax.models.config import Config

# By the axes of a weight those that come out: a channel is one of these.
CHANNELS = {
  "GPCE": "GPC",
  "EGRC": "E",
  "F2E": "F2",
  "EF": "E",
  "EI": "E",
  "VE": "V",
}


def channels(name: str, axes: str, config: Config) -> str:
  """The axes of a parameter that come out of its product; none: it has none.

  An embedding that is not the unembedding too is looked up and nothing else.
  """
  looked_up = name == "embedding" and not config.tie_word_embeddings
  return "" if looked_up else CHANNELS.get(axes, "")


class Turned(struct.PyTreeNode, meta.AxisMetadata):
  """A weight that lies [in, out].

  A module that asks for the parameter gets it unboxed, which moves nothing: in
  a compiled program a product reads the matrix as it lies, and so does what
  looks up some of its columns. Its leaf is the matrix, not what is unboxed, as
  Flax's own boxes have it: what is put on a device is what is read.

  Attributes:
    matrix: [I, X]
    shape: Of the weight as checkpoints have it.
  """

  matrix: jax.Array
  shape: tuple[int, ...] = struct.field(pytree_node=False)

  def unbox(self):
    """The weight as checkpoints have it; of NumPy's kind if the matrix is."""
    return self.matrix.T.reshape(self.shape)

  def replace_boxed(self, val):
    """Another one of this shape."""
    return self.replace(matrix=val.reshape(self.matrix.shape[::-1]).T)

  def add_axis(self, index, params):
    """Of a transformation that stacks parameters, which no model here has."""
    raise NotImplementedError("turned weights are not stacked")

  remove_axis = add_axis


def turn(weight: np.ndarray, channels: int) -> Turned:
  """A weight whose first axes, `channels` many, come out of its product."""
  matrix = weight.reshape(int(np.prod(weight.shape[:channels])), -1)
  return Turned(np.ascontiguousarray(matrix.T), weight.shape)


def are_turned(params: dict) -> bool:
  """Whether some of these parameters are."""

  def is_turned(x):
    return isinstance(x, Turned)

  return any(map(is_turned, jax.tree.leaves(params, is_leaf=is_turned)))
