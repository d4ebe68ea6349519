"""Reads a GGUF file's tensors, of every type that the gguf package knows."""

import functools

import numpy as np

from tv_jax.models.gguf.header import Header, Tensor


@functools.cache
def _known(number: int) -> bool:
  """Returns whether a type is one that the package turns into numbers."""
  import gguf

  try:
    kind = gguf.GGMLQuantizationType(number)
    with np.errstate(all="ignore"):
      block = np.zeros([1, gguf.GGML_QUANT_SIZES[kind][1]], np.uint8)
      gguf.dequantize(block, kind)
  except (ValueError, KeyError, NotImplementedError):
    return False
  return True


def num_bytes(tensor: Tensor) -> int:
  """Returns how many bytes a tensor without a fault takes."""
  import gguf

  block, size = gguf.GGML_QUANT_SIZES[gguf.GGMLQuantizationType(tensor.kind)]
  return tensor.size // block * size


def fault(own: Header, tensor: Tensor) -> str | None:
  """Returns what is wrong with a tensor that cannot be read."""
  import gguf

  if not _known(tensor.kind):
    names = {one.value: one.name for one in gguf.GGMLQuantizationType}
    name = names.get(tensor.kind, tensor.kind)
    return f"is of type {name}, of which no floating-point weights are known"
  kind = gguf.GGMLQuantizationType(tensor.kind)
  block, _ = gguf.GGML_QUANT_SIZES[kind]
  if not (tensor.shape and tensor.size) or tensor.shape[-1] % block:
    return (
      f"of shape {list(tensor.shape)} is no {kind.name}, whose rows are"
      f" multiples of {block} numbers"
    )
  if tensor.begin + num_bytes(tensor) > own.bytes:
    return "is not all there"
  return None


def read(own: Header, tensor: Tensor) -> np.ndarray:
  """Reads a tensor without a fault as float32 numbers."""
  import gguf

  kind = gguf.GGMLQuantizationType(tensor.kind)
  with own.path.open("rb") as file:
    file.seek(tensor.begin)
    data = file.read(num_bytes(tensor))
  rows = np.frombuffer(data, np.uint8).reshape(*tensor.shape[:-1], -1)
  with np.errstate(all="ignore"):  # what is stored may be infinite
    return gguf.dequantize(rows, kind).reshape(tensor.shape)
