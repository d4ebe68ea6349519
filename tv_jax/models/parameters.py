"""The parameters of a module, and the tensors that hold them.

Modules define the shapes and axis names of their parameters. A matrix is
[out, in], as in checkpoints. A parameter may hold several tensors with
interleaved rows: queries, keys and values in `qkv`, gate and up in `gate_up`.
"""

import concurrent.futures
import dataclasses
import functools
import math
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import jax
import numpy as np
from flax.traverse_util import unflatten_dict

from tv_jax.io import machine
from tv_jax.io.errors import UserError
from tv_jax.io.reading import listed
from tv_jax.models import layout, sharding
from tv_jax.models.layout import Path
from tv_jax.models.model import owned_specs
from tv_jax.models.quantised import FORMS, Part, Quantised
from tv_jax.models.storage import StoredTensor

# Dtypes that can be loaded, by safetensors' names. Weights of other dtypes are
# quantised: they mean nothing without scales that are stored elsewhere.
FLOATS = frozenset({"F64", "F32", "BF16", "F16"})
_ALIGNMENT = 64  # bytes
_PIECE = 1 << 17  # weights: these and their converted copies stay in cache
_PACKED = 1 << 20  # quantised weights: smaller pieces wait for Python's lock


@dataclasses.dataclass(frozen=True)
class Weight:
  """A parameter and its tensors.

  Attributes:
    shape: The parameter's shape.
    axes: The logical names of its axes.
    groups: Number of groups of rows. Each group holds some rows of each
      tensor, such as the queries, key and value of one head.
    tensors: Number of each tensor's rows in a group, by name.
  """

  shape: tuple[int, ...]
  axes: tuple[str | None, ...]
  groups: int
  tensors: Mapping[str, int]

  @property
  def shapes(self) -> dict[str, tuple[int, ...]]:
    """Returns the tensors' shapes, by name."""
    return {
      name: (self.groups * rows, *self.shape[1:])
      for name, rows in self.tensors.items()
    }

  def views(self, value: np.ndarray) -> list[np.ndarray]:
    """Returns the view [groups, rows, ..] of each tensor in a parameter."""
    groups = value.reshape(self.groups, -1, *self.shape[1:])
    return np.split(groups, np.cumsum([*self.tensors.values()])[:-1], axis=1)

  def split(self, value: np.ndarray) -> dict[str, np.ndarray]:
    """Returns the tensors of a parameter, by name."""
    return {
      name: np.ascontiguousarray(view).reshape(shape)
      for (name, shape), view in zip(
        self.shapes.items(), self.views(value), strict=True
      )
    }


def stored(module: Any) -> dict[Path, Weight]:
  """Returns the parameters that a module's checkpoint holds."""
  config, weights = module.config, {}
  names = module.format.layouts[config.model_type]
  for path, box in owned_specs(module).items():
    shape = box.value.shape
    name, groups, pieces = names.name(path), shape[0], {"": 1}
    if "qkv" in path:
      groups = config.num_key_value_heads
      pieces = {"q": config.heads_per_group, "k": 1, "v": 1}
    elif "gate_up" in path:
      groups, pieces = config.intermediate_size, {"gate": 1, "up": 1}
    unit = shape[0] // (groups * sum(pieces.values()))
    rows = {name.format(x): n * unit for x, n in pieces.items()}
    weights[path] = Weight(shape, box.names, groups, rows)
  return weights


def check(
  weights: Mapping[Path, Weight],
  tensors: Mapping[str, StoredTensor],
  *,
  quantised: bool,
) -> None:
  """Raises ValueError for missing, unknown and malformed tensors.

  Args:
    weights: The parameters, from `stored`.
    tensors: The checkpoint's tensors.
    quantised: Whether quantised weights can be read.
  """
  wanted = {
    x: y for weight in weights.values() for x, y in weight.shapes.items()
  }
  faults = [
    [f"missing: {name}" for name in wanted if name not in tensors],
    [
      f"unknown: {name}"
      for name in tensors
      if name not in wanted and not layout.IGNORED.fullmatch(name)
    ],
    [
      f"wrong shape: {name} is {list(tensors[name].shape)}, not {list(shape)}"
      for name, shape in wanted.items()
      if name in tensors and tensors[name].shape != shape
    ],
    [
      f"no floating-point weights: {name} is {tensors[name].dtype} (quantised"
      " weights are not supported)"
      for name in wanted
      if name in tensors and not quantised
      if tensors[name].dtype not in FLOATS
    ],
  ]
  if any(faults):
    raise UserError(
      "it does not hold what its configuration says: "
      + "; ".join(listed(kind, "; ") for kind in faults if kind)
    )


def read(
  weights: Mapping[Path, Weight],
  tensors: Mapping[str, StoredTensor],
  dtype: str,
  mesh,
  target: dict | None = None,
) -> dict:
  """Reads parameters and moves them to their devices, the largest first.

  The host never holds much more than the devices do: several threads read
  pieces of each tensor, straight to their places in the parameter.

  Args:
    weights: The parameters, from `stored`.
    tensors: The tensors. A matrix stays quantised if all its tensors can be
      read as words.
    dtype: The dtype of the other parameters.
    mesh: The devices.
    target: The parameters of a draft's target, which are in memory, too.

  Raises:
    ValueError: A weight is NaN or infinite, or they do not fit in memory.
  """
  values = {x: _empty(y, tensors, dtype) for x, y in weights.items()}
  _check_memory(values, dtype, target)
  params = {}
  # Freeing a block of this size makes glibc keep memory that is freed. It would
  # return it to the system after each piece and get it again page by page,
  # which is half of the loading time.
  np.empty(30 << 20, np.uint8)
  with concurrent.futures.ThreadPoolExecutor(machine.cores()) as pool:
    for path in sorted(values, key=lambda x: -math.prod(weights[x].shape)):
      value, weight = values.pop(path), weights[path]
      pieces = [
        (name, pool.submit(call))
        for name, call in _pieces(value, weight, tensors)
      ]
      for name, piece in pieces:
        try:
          piece.result()
        except FloatingPointError as error:
          raise UserError(
            f"weights are not finite in {error}, in {name}: get it again, or"
            " load it in another dtype"
          ) from None
      place = sharding.placement(weight.axes, mesh)
      params[path] = jax.device_put(value, place)
  return unflatten_dict(params)


def _empty(weight: Weight, tensors, dtype) -> np.ndarray | Quantised:
  """Returns memory for a parameter; no page of it is touched yet."""
  if not all(tensors[name].words for name in weight.tensors):
    return _aligned(weight.shape, dtype)
  parts = tuple(
    Part(FORMS[tensors[name].dtype], rows)
    for name, (rows, _) in weight.shapes.items()
  )
  columns = weight.shape[1]
  size = sum(math.prod(part.shape(columns)) for part in parts)
  words: Any = _aligned((size,), "uint32")
  return Quantised(words, parts, columns, weight.groups)


def _aligned(shape: tuple[int, ...], dtype: str) -> np.ndarray:
  """Returns an aligned array, which a CPU device takes without a copy."""
  size = math.prod(shape) * np.dtype(dtype).itemsize
  whole = np.empty(size + _ALIGNMENT, np.uint8)
  start = -whole.ctypes.data % _ALIGNMENT
  return whole[start : start + size].view(dtype).reshape(shape)


def _check_memory(values, dtype: str, target: dict | None) -> None:
  """Refuses weights that do not fit in memory together with the target's.

  The system kills a process that takes too much memory, without a message.
  """
  needed = sum(x.nbytes for x in jax.tree.leaves((values, target)))
  memory = machine.memory()
  if jax.default_backend() == "cpu" and needed > memory:
    raise UserError(
      f"in {dtype} it{' and its target' if target else ''}"
      f" take{'' if target else 's'} {needed / 1e9:.1f} GB, and there are"
      f' {memory / 1e9:.1f}: choose dtype="bfloat16" or a smaller model'
    )


def _pieces(value, weight: Weight, tensors) -> Iterator[tuple[str, Callable]]:
  """Yields each piece of a parameter: its tensor's name, and a call."""
  if isinstance(value, Quantised):
    views, read, most = value.split(), _pack, _PACKED
  else:
    views, read, most = weight.views(value), _fill, _PIECE
  columns = math.prod(weight.shape[1:])
  for (name, rows), view in zip(weight.tensors.items(), views, strict=True):
    each, least = rows, 1
    if read is _pack:  # whole vectors and whole heads
      each = view.shape[-1]
      least = math.lcm(each, rows) // each
    step = max(1, most // (least * each * columns)) * least
    for i in range(0, len(view), step):
      piece = view[i : i + step], tensors[name], i * each
      yield name, functools.partial(read, *piece)


def _pack(place: np.ndarray, tensor: StoredTensor, row: int) -> None:
  """Reads a tensor's rows, from `row` on, to their words [V, W, L]."""
  V, W, L = place.shape
  assert tensor.words
  words = tensor.words(row, min(row + V * L, tensor.shape[0]))
  words = np.pad(words, ((0, V * L - len(words)), (0, 0)))
  place[...] = words.reshape(V, L, W).swapaxes(1, 2)


def _fill(place: np.ndarray, tensor: StoredTensor, row: int) -> None:
  """Reads a tensor's rows, from `row` on, to their place [groups, rows, ..]."""
  value = tensor.rows(row, row + place.shape[0] * place.shape[1])
  with np.errstate(over="ignore"):  # infinite, if too large for float16
    value = value.astype(place.dtype, copy=False)
  # NaN and infinity have all exponent bits set. np.isfinite is slow with half
  # precision.
  bits = np.dtype(f"u{value.itemsize}")
  infinite = np.array(np.inf, value.dtype).view(bits)
  if ((value.view(bits) & infinite) == infinite).any():
    raise FloatingPointError(value.dtype)
  place[...] = value.reshape(place.shape)
