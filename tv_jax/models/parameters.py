"""Reads parameters from a checkpoint's tensors, in threads and in pieces."""

import concurrent.futures
import functools
import math
from collections.abc import Iterator, Mapping
from typing import Any

import jax
import numpy as np
from flax.traverse_util import unflatten_dict

from tv_jax.io import machine
from tv_jax.io.errors import UserError
from tv_jax.models import sharding
from tv_jax.models.layout import Path, StoredTensor, Weight
from tv_jax.models.quantised import Part, Quantised

_ALIGNMENT = 64  # bytes
_PIECE = 1 << 17  # weights: these and their converted copies stay in cache
_PACKED = 1 << 20  # quantised weights: smaller pieces wait for Python's lock


def read(
  tensors: Mapping[str, StoredTensor],
  weights: Mapping[Path, Weight],
  module: Any,
) -> dict:
  """Reads parameters to their devices, the largest first.

  The host never holds much more than the devices do: several threads read
  pieces of each tensor, straight to their places in the parameter.
  """
  params = {}
  _keep_freed_memory()
  with concurrent.futures.ThreadPoolExecutor(machine.cores()) as pool:
    for path in sorted(weights, key=lambda x: -math.prod(weights[x].shape)):
      weight = weights[path]
      if parts := _parts(weight, tensors):
        value, pieces = _packed(weight, parts, tensors)
      else:
        value = _empty(weight.shape, module.config.dtype)
        pieces = [
          functools.partial(_fill, view[start:stop], tensors[name], name, start)
          for name, view in weight.views(value).items()
          for start, stop in _pieces(view)
        ]
      for piece in [*map(pool.submit, pieces)]:
        piece.result()
      place = sharding.placement(weight.axes, module.mesh)
      params[path] = jax.device_put(value, place)
  return unflatten_dict(params)


def size(
  tensors: Mapping[str, StoredTensor],
  weights: Mapping[Path, Weight],
  dtype: str,
) -> int:
  """Returns the bytes that the parameters will take."""
  return sum(
    4 * _words(weight, parts)
    if (parts := _parts(weight, tensors))
    else math.prod(weight.shape) * np.dtype(dtype).itemsize
    for weight in weights.values()
  )


def _parts(
  weight: Weight, tensors: Mapping[str, StoredTensor]
) -> tuple[Part, ...]:
  """Returns a matrix's parts; empty if a tensor does not stay quantised."""
  found = []
  for name, shape in weight.shapes.items():
    if (form := tensors[name].form) is None:
      return ()
    found.append(Part(form, shape[0]))
  return tuple(found)


def _words(weight: Weight, parts: tuple[Part, ...]) -> int:
  """Returns the number of words of a quantised matrix."""
  return sum(math.prod(part.shape(weight.shape[1])) for part in parts)


def _keep_freed_memory() -> None:
  """Makes glibc keep memory that is freed, for the next piece.

  Otherwise it returns memory to the system after each piece and gets it again
  page by page, which is half of the loading time.
  """
  np.empty(30 << 20, np.uint8)  # freeing a block of this size does it


def _packed(
  weight: Weight,
  parts: tuple[Part, ...],
  tensors: Mapping[str, StoredTensor],
) -> tuple[Quantised, list]:
  """Returns a quantised matrix, and the calls that fill it."""
  words: Any = _empty((_words(weight, parts),), "uint32")
  matrix = Quantised(words, parts, weight.shape[1], weight.groups)
  calls = []
  for view, (name, rows) in zip(
    matrix.split(), weight.tensors.items(), strict=True
  ):
    least = math.lcm(view.shape[-1], rows)  # whole vectors and whole heads
    step = max(1, _PACKED // (least * weight.shape[1])) * least
    vectors = step // view.shape[-1]
    for i in range(0, len(view), vectors):
      piece = view[i : i + vectors], tensors[name], name, i * view.shape[-1]
      calls.append(functools.partial(_pack, *piece))
  return matrix, calls


def _pack(place: np.ndarray, tensor: StoredTensor, name: str, row: int) -> None:
  """Reads vectors of a quantised tensor's rows, as `_fill` does.

  Args:
    place: [V, W, L] The destination.
    tensor: The tensor.
    name: The tensor's name.
    row: Index of the first row to read.
  """
  V, W, L = place.shape
  assert tensor.words
  try:
    words = tensor.words(row, min(row + V * L, tensor.shape[0]))
  except FloatingPointError:
    raise _not_finite(tensor, name, "float32") from None
  words = np.pad(words, ((0, V * L - len(words)), (0, 0)))
  place[...] = words.reshape(V, L, W).swapaxes(1, 2)


def _empty(shape: tuple[int, ...], dtype: str) -> np.ndarray:
  """Returns an aligned array, which a CPU device takes without a copy."""
  size = math.prod(shape) * np.dtype(dtype).itemsize
  whole = np.empty(size + _ALIGNMENT, np.uint8)
  start = -whole.ctypes.data % _ALIGNMENT
  return whole[start : start + size].view(dtype).reshape(shape)


def _pieces(view: np.ndarray) -> Iterator[tuple[int, int]]:
  """Yields the start and stop group of each piece of a tensor."""
  step = max(1, _PIECE * len(view) // max(1, view.size))
  for start in range(0, len(view), step):
    yield start, start + step


def _fill(
  place: np.ndarray, tensor: StoredTensor, name: str, group: int
) -> None:
  """Reads groups of a tensor's rows; refuses NaN and infinite weights.

  Args:
    place: [groups, rows, ..] The destination.
    tensor: The tensor.
    name: The tensor's name.
    group: Index of the first group to read.
  """
  rows = place.shape[1]
  value = tensor.rows(group * rows, (group + len(place)) * rows)
  with np.errstate(over="ignore"):  # infinite, if too large for float16
    value = value.astype(place.dtype, copy=False)
  # NaN and infinity have all exponent bits set. np.isfinite is slow with half
  # precision.
  bits = np.dtype(f"u{value.itemsize}")
  infinite = np.array(np.inf, value.dtype).view(bits)
  if ((value.view(bits) & infinite) == infinite).any():
    raise _not_finite(tensor, name, value.dtype)
  place[...] = value.reshape(place.shape)


def _not_finite(tensor: StoredTensor, name: str, dtype) -> UserError:
  return UserError(
    f"{tensor.path} holds weights that are not finite in {dtype}, in {name}:"
    " get it again, or load it in another dtype"
  )
