"""Reads GGUF files with the gguf package, under Hugging Face's names."""

import dataclasses
import functools
import os
import pathlib
import re
from collections.abc import Mapping
from typing import Any

import numpy as np

from tv_jax.io.errors import UserError
from tv_jax.models.gguf import packing
from tv_jax.models.layout import StoredTensor
from tv_jax.models.quantised import FORMS

SUFFIX = ".gguf"
# Divisors of the RoPE frequencies: a part of the configuration, not a weight.
FACTORS = "rope_freqs.weight"

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


@dataclasses.dataclass(frozen=True)
class File:
  """The contents of a file.

  Attributes:
    path: The file.
    metadata: Numbers, booleans, texts and lists, by name.
    tensors: The gguf package's records, by their names in the file.
  """

  path: pathlib.Path
  metadata: Mapping[str, Any]
  tensors: Mapping[str, Any]

  def first(self, *names: str) -> Any:
    """Returns the first existing entry of its architecture, or None."""
    kind = self.metadata.get("general.architecture")
    values = (self.metadata.get(f"{kind}.{name}") for name in names)
    return next((value for value in values if value is not None), None)

  def error(self, fault: str) -> ValueError:
    """Returns an error that names the file."""
    return UserError(f"{self.path}: {fault}")


def read(path: pathlib.Path) -> File:
  """Reads a file's metadata and the positions of its tensors.

  Raises:
    ValueError: If the file is damaged or not GGUF.
  """
  import gguf

  class Reader(gguf.GGUFReader):
    @property
    def data(self):
      return self._data

    @data.setter
    def data(self, value):
      self._data = value.view(np.ndarray)  # faster to slice

    def _get_field_parts(self, orig_offs, raw_type):
      """Reads a list at once; item by item, a vocabulary takes seconds."""
      kinds = gguf.GGUFValueType
      if raw_type != kinds.ARRAY or self.byte_order != "I":
        return super()._get_field_parts(orig_offs, raw_type)
      kind = kinds(self._get(orig_offs, np.uint32)[0])
      count = int(self._get(orig_offs + 4, np.uint64)[0])
      offset = orig_offs + 12
      if kind in self.gguf_scalar_to_np:
        items = [self._get(offset, self.gguf_scalar_to_np[kind], count)]
        offset += count * items[0].itemsize
      elif kind == kinds.STRING:
        items, whole = [], memoryview(self.data)
        while len(items) < count and offset <= len(whole):
          start = offset + 8
          offset = start + int.from_bytes(whole[offset:start], "little")
          items.append(whole[start:offset])
      else:
        return super()._get_field_parts(orig_offs, raw_type)
      if offset > len(self.data):
        raise UserError("a list ends behind the file")
      types = [kinds.ARRAY, kind]
      return offset - orig_offs, items, [*range(len(items))], types

  try:
    whole = Reader(path)
    if whole.byte_order != "I":
      raise UserError("its numbers are big-endian")
    metadata = {x: field.contents() for x, field in whole.fields.items()}
    end = whole.data_offset
    for tensor in whole.tensors:  # llama.cpp, too, wants them without gaps
      if tensor.data_offset != end:
        raise UserError(
          f"{tensor.name} begins at {tensor.data_offset}, not at {end}, where"
          " the tensor before it ends"
        )
      end += -(-tensor.n_bytes // whole.alignment) * whole.alignment
  except Exception as error:  # a damaged file can raise any error
    reason = " ".join(str(error).split())
    raise UserError(
      f"{path} is truncated or is not GGUF ({reason}): get it again"
    ) from None
  return File(path, metadata, {x.name: x for x in whole.tensors})


def contents(file: File) -> dict[str, StoredTensor]:
  """Returns a file's tensors by Hugging Face's names, without reading them."""
  return {
    _name(name): StoredTensor(
      path=file.path,
      shape=tuple(x.shape.tolist())[::-1],
      dtype="F32",  # the package converts all types to this
      rows=functools.partial(_rows, file, x),
      form=FORMS.get(x.tensor_type.name),
      words=functools.partial(_words, file, x),
    )
    for name, x in file.tensors.items()
    if name != FACTORS
  }


def without_form(file: File) -> list[str]:
  """Returns the names of a file's quantised types that are not in `FORMS`."""
  kinds = {x.tensor_type.name for x in file.tensors.values()}
  return sorted(kinds - FORMS.keys() - {"F64", "F32", "F16", "BF16"})


def _name(name: str) -> str:
  """Returns Hugging Face's name of a tensor; keeps an unknown name."""
  parts = _NAME.fullmatch(name)
  if parts is None or parts[2] not in _NAMES:
    return name
  layer = f"model.layers.{int(parts[1])}." if parts[1] else ""
  return f"{layer}{_NAMES[parts[2]]}.{parts[3]}"


def _read_rows(file: File, tensor, start: int, stop: int) -> np.ndarray:
  """Returns the bytes of rows of a tensor."""
  size = int(tensor.n_bytes) // int(tensor.shape[-1])
  # Read, not mapped: mapped pages would count as this process's memory.
  return np.fromfile(
    file.path,
    np.uint8,
    (stop - start) * size,
    offset=int(tensor.data_offset) + start * size,
  )


def dequantised(file: File, tensor, start: int, stop: int) -> np.ndarray:
  """Returns rows of a tensor in float32."""
  import gguf

  data = _read_rows(file, tensor, start, stop)
  with np.errstate(all="ignore"):  # weights may be infinite
    # As a single row: the package reads more rows slowly, sixteen at a time.
    try:
      value = gguf.dequantize(data[None], tensor.tensor_type)
    except NotImplementedError as error:
      raise UserError(f"{tensor.name}: {error}") from error
  shape = tensor.shape.tolist()[-2::-1]
  return np.asarray(value, np.float32).reshape(-1, *shape)


def _rows(file: File, tensor, start: int, stop: int) -> np.ndarray:
  """Returns rows in Hugging Face's order; in queries and keys, whole heads."""
  return _ordered(file, tensor, dequantised(file, tensor, start, stop))


def _words(file: File, tensor, start: int, stop: int) -> np.ndarray:
  """Returns the words [rows, W] of the same rows of a quantised tensor."""
  kind = tensor.tensor_type.name
  groups = int(tensor.shape[0]) // FORMS[kind].group
  data = _read_rows(file, tensor, start, stop)
  words = packing.pack(kind, data.reshape(stop - start, groups, -1))
  return _ordered(file, tensor, words.reshape(stop - start, -1))


def _ordered(file: File, tensor, value: np.ndarray) -> np.ndarray:
  """Puts rows of whole heads in Hugging Face's order."""
  part = tensor.name.split(".")[-2]
  is_llama = file.metadata.get("general.architecture") == "llama"
  if not is_llama or part not in _HEADS or value.ndim < 2:
    return value
  heads = file.first(*(f"attention.{name}" for name in _HEADS[part]))
  channels = int(tensor.shape[-1]) // heads
  pairs = value.reshape(-1, channels // 2, 2, value.shape[1])
  return pairs.swapaxes(1, 2).reshape(value.shape)
