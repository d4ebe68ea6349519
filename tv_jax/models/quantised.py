"""Matrices with weights of four or eight bits, as GGUF files store them.

The codes stay as they are, so they take a quarter of the memory of float32 or
less. Products (quantised.cc) sum in float32: they differ from products with the
dequantised matrix in rounding only. These matrices exist on CPUs only.

O rows of a matrix, K columns, V vectors of rows, L rows in a vector, W words of
a row.
"""

import dataclasses
import functools
import math
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from tv_jax.models import native


class Form(NamedTuple):
  """How the weights of a row are stored; quantised.cc lists the words.

  A weight is a * (code - centre) + b. Columns are divided into blocks, each
  with its own a and b, and blocks into groups with common factors of these.
  """

  bits: int  # of a code
  columns: int  # of a block
  blocks: int  # of a group
  offsets: int  # 1 with b, otherwise 0
  centre: int

  @property
  def factors(self) -> int:
    """Returns the number of words with the factors of a group."""
    return 1 + self.offsets

  @property
  def scales(self) -> int:
    """Returns the number of words with the scales of a group's blocks."""
    return self.factors * self.blocks // 4 if self.blocks > 1 else 0

  @property
  def words(self) -> int:
    """Returns the number of words of a group."""
    codes = self.group * self.bits // 32
    return self.factors + self.scales + codes

  @property
  def group(self) -> int:
    """Returns the number of columns of a group."""
    return self.columns * self.blocks


# By the gguf package's names of types.
FORMS = {
  "Q4_0": Form(4, 32, 1, 0, 8),
  "Q4_1": Form(4, 32, 1, 1, 0),
  "Q5_0": Form(8, 32, 1, 0, 16),
  "Q5_1": Form(8, 32, 1, 1, 0),
  "Q8_0": Form(8, 32, 1, 0, 128),
  "Q4_K": Form(4, 32, 8, 1, 0),
  "Q5_K": Form(8, 32, 8, 1, 0),
  "Q6_K": Form(8, 16, 16, 0, 32),
}


class Part(NamedTuple):
  """Rows of a matrix that have the same form."""

  form: Form
  rows: int

  def shape(self, columns: int) -> tuple[int, int, int]:
    """Returns the shape [V, W, L] of its words."""
    L = native.lanes()
    return -(-self.rows // L), columns // self.form.group * self.form.words, L


@functools.partial(
  jax.tree_util.register_dataclass,
  data_fields=["words"],
  meta_fields=["parts", "columns", "groups"],
)
@dataclasses.dataclass(frozen=True)
class Quantised:
  """A matrix [O, K].

  Attributes:
    words: The words of all parts in one axis, uint32. A part is [V, W, L].
    parts: The parts. Queries, keys and values may have different forms.
    columns: Number of columns.
    groups: Number of groups of rows, as in `parameters.Weight`: each group has
      the same number of rows of each part, one part after the other.
  """

  words: jax.Array
  parts: tuple[Part, ...]
  columns: int
  groups: int

  @property
  def shape(self) -> tuple[int, int]:
    """Returns the matrix's shape."""
    return sum(part.rows for part in self.parts), self.columns

  def split(self) -> list:
    """Returns the words [V, W, L] of each part."""
    shapes = [part.shape(self.columns) for part in self.parts]
    ends = np.cumsum([*map(math.prod, shapes)])
    pieces = zip([0, *ends], ends, shapes, strict=False)
    return [self.words[i:end].reshape(shape) for i, end, shape in pieces]


def product(x: jax.Array, matrix: Quantised) -> jax.Array:
  """Returns the product [.., O] of x [.., K] and a matrix in float32.

  A row's result has the same bits whatever the number of rows.
  """
  *lead, K = x.shape
  assert matrix.columns == K, (x.shape, matrix.shape)
  L = native.lanes()
  numbers = np.array([[*form, rows] for form, rows in matrix.parts])
  ends = np.cumsum(-(-numbers[:, -1] // L) * L)
  x = x.reshape(-1, K).astype(jnp.float32)
  y = native.quantised(x, matrix.words, numbers.ravel(), int(ends[-1]))
  pieces = [
    piece[:, :rows].reshape(len(x), matrix.groups, rows // matrix.groups)
    for piece, (_, rows) in zip(
      jnp.split(y, ends[:-1], axis=1), matrix.parts, strict=True
    )
  ]
  return jnp.concatenate(pieces, axis=-1).reshape(*lead, matrix.shape[0])


def rows(matrix: Quantised, index: jax.Array) -> jax.Array:
  """Returns rows [.., K] of a matrix of one part; indices are clipped."""
  return _decode(_words(matrix, index), matrix.parts[0].form)


def take(matrix: Quantised, index) -> Quantised:
  """Returns a matrix of some rows of a matrix of one part."""
  rows, L = len(index), native.lanes()
  words = _words(matrix, jnp.pad(jnp.asarray(index), (0, -rows % L)))
  words = words.reshape(-1, L, words.shape[-1]).swapaxes(1, 2).reshape(-1)
  part = matrix.parts[0]._replace(rows=rows)
  return dataclasses.replace(matrix, words=words, parts=(part,), groups=rows)


def is_quantised(x) -> bool:
  """Returns whether a value is a quantised matrix."""
  return isinstance(x, Quantised)


def dequantised(params):
  """Returns parameters with arrays in place of quantised matrices."""
  return jax.tree.map(
    lambda x: _array(x) if is_quantised(x) else x, params, is_leaf=is_quantised
  )


@jax.jit
def _array(matrix: Quantised) -> jax.Array:
  pieces = []
  for words, (form, rows) in zip(matrix.split(), matrix.parts, strict=True):
    words = words.swapaxes(1, 2).reshape(-1, words.shape[1])[:rows]
    piece = _decode(words, form)
    pieces.append(piece.reshape(matrix.groups, -1, matrix.columns))
  return jnp.concatenate(pieces, axis=1).reshape(matrix.shape)


def _words(matrix: Quantised, index: jax.Array) -> jax.Array:
  """Returns the words [.., W] of rows of a matrix of one part."""
  (words,), L = matrix.split(), native.lanes()
  index = jnp.clip(index, 0, matrix.shape[0] - 1)
  return words[index // L, :, index % L]


def _decode(words: jax.Array, form: Form) -> jax.Array:
  """Returns the weights [.., K] of rows of words [.., W]."""
  lead = words.shape[:-1]
  words = words.reshape(*lead, -1, form.words)
  ends = np.cumsum([form.factors, form.scales])
  factors, scales, codes = jnp.split(words, ends, axis=-1)
  # [.., a and b, blocks]
  factors = jax.lax.bitcast_convert_type(factors, jnp.float32)[..., None]
  if form.scales:
    scales = jax.lax.bitcast_convert_type(scales, jnp.int8)
    scales = scales.reshape(*factors.shape[:-1], form.blocks)
    factors *= scales.astype(jnp.float32)
  mask = np.uint32(2**form.bits - 1)
  # The lower halves of bytes are columns before those in the upper halves.
  places = [x for half in range(0, 8, form.bits) for x in range(half, 32, 8)]
  codes = jnp.stack([codes >> np.uint32(x) & mask for x in places], axis=-1)
  codes = codes.reshape(*words.shape[:-1], form.blocks, form.columns)
  weights = (codes.astype(jnp.float32) - form.centre) * factors[..., :1, :].mT
  if form.offsets:
    weights += factors[..., 1:, :].mT
  return weights.reshape(*lead, -1)
