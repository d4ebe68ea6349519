"""Weights of eight bits: whole numbers, and a scale for each channel.

Half the bytes of every pass, which is most of the time that a GPU takes for
one. A model of such weights is a model of its own, whose laws are near those
of the one that it was made from: a target's are what is kept exactly, by every
rule, and the draft's are what is drawn from.

A channel is one output of a product: a row of a matrix [out, in]. Its largest
weight is 127. Norms and biases stay as they are, and so does an embedding from
which rows are looked up and nothing else.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from tv_jax.models import products
from tv_jax.models.config import Config

MOST = 127
_AT_ONCE = 1 << 22  # numbers


class Quantised(NamedTuple):
  """A parameter of eight bits."""

  values: jax.Array  # int8
  scale: jax.Array  # float32: the first of its axes


def channels(name: str, axes: str, config: Config) -> str:
  """The axes of a parameter's scale; none where it stays as it is."""
  return products.channels(name, axes, config) if config.quantised else ""


def quantise(weights: np.ndarray, channels: int) -> Quantised:
  """To the nearest of 255 values.

  Some rows at a time: the host is never to hold all of them in float32.

  Args:
    weights: Of any floating type.
    channels: How many axes are.

  Raises:
    ValueError: One of them is not finite.
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
    if not np.isfinite(most).all():
      raise ValueError("a weight that is not finite")
    least = most / MOST
    scale[own] = np.where(least > 0, least, 1)  # so little may be 0
    block /= scale[own, None]
    values[own] = np.rint(block, out=block)
  return Quantised(values.reshape(weights.shape), scale.reshape(kept))


def shape_of(weights: jax.Array | Quantised) -> tuple[int, ...]:
  """Of the parameter, whatever it is kept as."""
  return jnp.shape(
    weights.values if isinstance(weights, Quantised) else weights
  )


def product(
  x: jax.Array, weights: jax.Array | Quantised, dtype=None
) -> jax.Array:
  """Contracts `x` [B, T, I] with `weights` [X, I], as [B, T, X] in `dtype`.

  Scales are of what comes out, so that the product is one of whole numbers,
  which are exact in every dtype.
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


def as_matrix(weights: jax.Array | Quantised, channels: int):
  """The parameter as [out, in], of which the first axes are out."""
  kept = math.prod(shape_of(weights)[:channels])
  return jax.tree.map(
    lambda x: x.reshape(kept, *([-1] if x.ndim > channels else [])), weights
  )
