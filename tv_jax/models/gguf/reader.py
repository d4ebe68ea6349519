"""Reads GGUF files, under Hugging Face's names.

The gguf package defines the types of weights; ggml's docs/gguf.md the file.
"""

import dataclasses
import functools
import math
import os
import pathlib
import re
from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np

from tv_jax.io.errors import UserError
from tv_jax.models.gguf import packing
from tv_jax.models.quantised import FORMS
from tv_jax.models.storage import StoredTensor

SUFFIX = ".gguf"
# Divisors of the RoPE frequencies: a part of the configuration, not a weight.
FACTORS = "rope_freqs.weight"

# Types of metadata: those of NumPy, texts and lists.
_NUMBERS = dict(enumerate(("u1", "i1", "u2", "i2", "u4", "i4", "f4", "?")))
_NUMBERS |= {10: "u8", 11: "i8", 12: "f8"}
_TEXT, _LIST = 8, 9

# Hugging Face's tensor names, without the suffix.
_NAMES = {
  "token_embd": "model.embed_tokens",
  "output_norm": "model.norm",
  "output": "lm_head",
  "attn_norm": "input_layernorm",
  "attn_q": "self_attn.q_proj",
  "attn_k": "self_attn.k_proj",
  "attn_v": "self_attn.v_proj",
  "attn_q_norm": "self_attn.q_norm",
  "attn_k_norm": "self_attn.k_norm",
  "attn_output": "self_attn.o_proj",
  "ffn_norm": "post_attention_layernorm",
  "ffn_gate": "mlp.gate_proj",
  "ffn_up": "mlp.up_proj",
  "ffn_down": "mlp.down_proj",
}
_NAME = re.compile(r"(?:blk\.(\d+)\.)?(\w+)\.(weight|bias)")
# Tensors with interleaved real and imaginary parts in Llama's files, and the
# metadata with their number of heads.
_HEADS = {"attn_q": ("head_count",), "attn_k": ("head_count_kv", "head_count")}


def is_file(place) -> bool:
  """Returns whether a path names a GGUF file, which need not exist."""
  return str(place).endswith(SUFFIX) and not os.path.isdir(place)


class Tensor(NamedTuple):
  """A tensor of a file."""

  name: str  # in the file
  kind: Any  # a type of the gguf package
  shape: tuple[int, ...]
  offset: int  # in the file, in bytes
  size: int  # in bytes


@dataclasses.dataclass(frozen=True)
class File:
  """The contents of a file.

  Attributes:
    path: The file.
    metadata: Numbers, booleans, texts and lists, by name.
    tensors: The tensors, by their names in the file.
  """

  path: pathlib.Path
  metadata: Mapping[str, Any]
  tensors: Mapping[str, Tensor]

  def first(self, *names: str) -> Any:
    """Returns the first existing entry of its architecture, or None."""
    kind = self.metadata.get("general.architecture")
    values = (self.metadata.get(f"{kind}.{name}") for name in names)
    return next((value for value in values if value is not None), None)

  def error(self, fault: str) -> ValueError:
    """Returns an error that names the file."""
    return UserError(f"{self.path}: {fault}")


class _Bytes:
  """A file's bytes, read in order."""

  def __init__(self, path):
    whole: Any = np.memmap(path, np.uint8, "r")
    self.data, self.place = memoryview(whole), 0

  def take(self, count: int) -> memoryview:
    self.place += count
    if self.place > len(self.data):
      raise UserError(f"it ends after {len(self.data)} bytes")
    return self.data[self.place - count : self.place]

  def count(self, size: int = 8) -> int:
    return int.from_bytes(self.take(size), "little")

  def numbers(self, kind: str, count: int) -> list:
    size = np.dtype(kind).itemsize
    return np.frombuffer(self.take(count * size), f"<{kind}").tolist()

  def text(self) -> str:
    return str(self.take(self.count()), "utf-8")

  def value(self, kind: int) -> Any:
    if kind == _TEXT:
      return self.text()
    if kind in _NUMBERS:
      return self.numbers(_NUMBERS[kind], 1)[0]
    assert kind == _LIST, f"type {kind}"
    kind, count = self.count(4), self.count()
    if kind in _NUMBERS:
      return self.numbers(_NUMBERS[kind], count)
    return [self.value(kind) for _ in range(count)]


def read(path: pathlib.Path) -> File:
  """Reads a file's metadata and the positions of its tensors.

  The gguf package would take seconds for a vocabulary.

  Raises:
    ValueError: If the file is damaged or not GGUF.
  """
  try:
    return File(path, *_read(_Bytes(path)))
  except Exception as error:  # a damaged file can raise any error
    reason = " ".join(str(error).split())
    raise UserError(
      f"{path} is truncated or is not GGUF ({reason}): get it again"
    ) from None


def _read(file: _Bytes) -> tuple[dict[str, Any], dict[str, Tensor]]:
  import gguf

  if file.take(4) != b"GGUF":
    raise UserError("GGUF magic invalid")
  if (version := file.count(4)) not in (2, 3):
    raise UserError(f"version {version} is not 2 or 3, little-endian")
  count, entries = file.count(), file.count()
  metadata = {file.text(): file.value(file.count(4)) for _ in range(entries)}
  heads = []
  for _ in range(count):
    name, axes = file.text(), file.count(4)
    shape = tuple(file.numbers("u8", axes))[::-1]
    kind = gguf.GGMLQuantizationType(file.count(4))
    heads.append((name, kind, shape, file.count()))
  alignment = metadata.get("general.alignment", 32)
  start = end = -(-file.place // alignment) * alignment
  tensors = {}
  for name, kind, shape, offset in heads:
    if start + offset != end:  # llama.cpp, too, wants them without gaps
      raise UserError(
        f"{name} begins at {start + offset}, not at {end}, where the tensor"
        " before it ends"
      )
    columns, size = gguf.GGML_QUANT_SIZES[kind]
    size *= math.prod(shape) // columns
    if end + size > len(file.data):
      raise UserError(f"it ends in {name}")
    tensors[name] = Tensor(name, kind, shape, end, size)
    end += -(-size // alignment) * alignment
  return metadata, tensors


def contents(file: File) -> dict[str, StoredTensor]:
  """Returns a file's tensors by Hugging Face's names, without reading them."""
  found = {}
  for name, x in file.tensors.items():
    if name != FACTORS:
      words = functools.partial(_words, file, x)
      found[_name(name)] = StoredTensor(
        shape=x.shape,
        dtype=x.kind.name,
        rows=functools.partial(_rows, file, x),
        words=words if x.kind.name in FORMS else None,
      )
  return found


def _name(name: str) -> str:
  """Returns Hugging Face's name of a tensor; keeps an unknown name."""
  parts = _NAME.fullmatch(name)
  if parts is None or parts[2] not in _NAMES:
    return name
  layer = f"model.layers.{int(parts[1])}." if parts[1] else ""
  return f"{layer}{_NAMES[parts[2]]}.{parts[3]}"


def _read_rows(file: File, tensor: Tensor, start: int, stop: int) -> np.ndarray:
  """Returns the bytes of rows of a tensor."""
  size = tensor.size // tensor.shape[0]
  # Read, not mapped: mapped pages would count as this process's memory.
  return np.fromfile(
    file.path,
    np.uint8,
    (stop - start) * size,
    offset=tensor.offset + start * size,
  )


def dequantised(
  file: File, tensor: Tensor, start: int, stop: int
) -> np.ndarray:
  """Returns rows of a tensor in float32."""
  import gguf

  data = _read_rows(file, tensor, start, stop)
  with np.errstate(all="ignore"):  # weights may be infinite
    # As a single row: the package reads more rows slowly, sixteen at a time.
    try:
      value = gguf.dequantize(data[None], tensor.kind)
    except NotImplementedError as error:
      raise UserError(f"{tensor.name}: {error}") from error
  return np.asarray(value, np.float32).reshape(-1, *tensor.shape[1:])


def _rows(file: File, tensor: Tensor, start: int, stop: int) -> np.ndarray:
  """Returns rows in Hugging Face's order; in queries and keys, whole heads."""
  return _ordered(file, tensor, dequantised(file, tensor, start, stop))


def _words(file: File, tensor: Tensor, start: int, stop: int) -> np.ndarray:
  """Returns the words [rows, W] of the same rows of a quantised tensor."""
  kind = tensor.kind.name
  groups = tensor.shape[-1] // FORMS[kind].group
  data = _read_rows(file, tensor, start, stop)
  words = packing.pack(kind, data.reshape(stop - start, groups, -1))
  return _ordered(file, tensor, words.reshape(stop - start, -1))


def _ordered(file: File, tensor: Tensor, value: np.ndarray) -> np.ndarray:
  """Puts rows of whole heads in Hugging Face's order."""
  part = tensor.name.split(".")[-2]
  is_llama = file.metadata.get("general.architecture") == "llama"
  if not is_llama or part not in _HEADS or value.ndim < 2:
    return value
  heads = file.first(*(f"attention.{name}" for name in _HEADS[part]))
  channels = tensor.shape[0] // heads
  pairs = value.reshape(-1, channels // 2, 2, value.shape[1])
  return pairs.swapaxes(1, 2).reshape(value.shape)
