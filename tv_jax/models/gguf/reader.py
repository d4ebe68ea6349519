"""Reads GGUF files with the gguf package, under Hugging Face's names."""

import dataclasses
import functools
import os
import pathlib
import re
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from tv_jax.edge import reading
from tv_jax.edge.reading import brief, shown

SUFFIX = ".gguf"
# What a pair of channels' frequency is divided by: a part of the configuration.
FACTORS = "rope_freqs.weight"

# Tensors' names before their suffix.
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
_NAME = re.compile(r"(?:blk\.(\d{1,6})\.)?(\w+)\.(weight|bias)")
# Llama's queries and keys have a head's real and imaginary parts side by side.
_HEADS = {"attn_q": ("head_count",), "attn_k": ("head_count_kv", "head_count")}


def is_one(place) -> bool:
  """Returns whether a place is a GGUF file's, there or not."""
  return (
    isinstance(place, str | os.PathLike)
    and os.fspath(place).endswith(SUFFIX)
    and not os.path.isdir(place)
  )


@dataclasses.dataclass(frozen=True)
class File:
  """What a file holds.

  Attributes:
    path: The file.
    metadata: Numbers, booleans, texts and lists.
    tensors: The package's records, by the file's own names.
  """

  path: pathlib.Path
  metadata: Mapping[str, Any]
  tensors: Mapping[str, Any]

  def first(self, *names: str):
    """Returns the first of these metadata of its architecture, or None."""
    kind = self.metadata.get("general.architecture")
    values = (self.metadata.get(f"{kind}.{name}") for name in names)
    return next((value for value in values if value is not None), None)

  def error(self, fault: str) -> ValueError:
    """Returns an error that names the file."""
    return ValueError(f"{shown(self.path)}: {fault}")


def read(path) -> File:
  """Reads a file's metadata, and where its tensors are.

  Raises:
    ValueError: In one line, why it is no GGUF file.
  """
  path = reading.regular(path)
  about = path.stat()
  return _read(path, about.st_size, about.st_mtime_ns)


@functools.lru_cache(maxsize=4)
def _read(path: pathlib.Path, size: int, changed: int) -> File:
  """Reads a file that has not changed once; it is asked for often."""
  del size, changed
  import gguf

  class Reader(gguf.GGUFReader):
    @property
    def data(self):
      return self._data

    @data.setter
    def data(self, value):
      self._data = value.view(np.ndarray)  # whose parts are made faster

  try:
    whole = Reader(path)
    metadata = {x: field.contents() for x, field in whole.fields.items()}
    _check_places(whole)
  except Exception as error:  # of a damaged file it can be any
    reason = " ".join(str(error).split())
    raise ValueError(
      f"{shown(path)} is truncated or is not GGUF ({shown(reason)}): get it"
      " again"
    ) from None
  return File(path, metadata, {x.name: x for x in whole.tensors})


def _check_places(whole) -> None:
  """Refuses tensors that lie elsewhere: they would be other weights."""
  end = whole.data_offset
  for tensor in sorted(whole.tensors, key=lambda x: (x.data_offset, x.n_bytes)):
    begin = -(-end // whole.alignment) * whole.alignment
    if tensor.data_offset != begin:
      raise ValueError(
        f"{tensor.name} begins at {tensor.data_offset}, not at {begin}, where"
        " the tensor before it ends"
      )
    end = tensor.data_offset + tensor.n_bytes


def name_of(name: str) -> str:
  """Returns a tensor's name as Hugging Face has it, or its own."""
  parts = _NAME.fullmatch(name)
  if parts is None or parts[2] not in _NAMES:
    return name
  layer = f"model.layers.{int(parts[1])}." if parts[1] else ""
  return f"{layer}{_NAMES[parts[2]]}.{parts[3]}"


def contents(path) -> dict[str, tuple[tuple[int, ...], str, Callable]]:
  """Returns shape, type and reader of each tensor, by Hugging Face's names.

  The type is safetensors' F32 of all that the package turns into numbers.
  """
  file = read(path)
  return {
    name_of(name): (
      tuple(x.shape.tolist())[::-1],
      "F32" if _is_known(x.tensor_type) else x.tensor_type.name,
      functools.partial(_weights, file, x),
    )
    for name, x in file.tensors.items()
    if name != FACTORS
  }


@functools.cache
def _is_known(kind) -> bool:
  """Returns whether a type is one that the package turns into numbers."""
  import gguf

  block = np.zeros([1, gguf.GGML_QUANT_SIZES[kind][1]], np.uint8)
  try:
    with np.errstate(all="ignore"):
      gguf.dequantize(block, kind)
  except NotImplementedError:
    return False
  return True


def numbers(tensor) -> np.ndarray:
  """Returns a tensor in float32."""
  import gguf

  shape = tensor.shape.tolist()[::-1]
  with np.errstate(all="ignore"):  # what is stored may be infinite
    value = gguf.dequantize(tensor.data, tensor.tensor_type)
  return np.asarray(value, np.float32).reshape(shape)


def _weights(file: File, tensor) -> np.ndarray:
  """Returns a tensor as Hugging Face has it."""
  value = numbers(tensor)
  part = tensor.name.split(".")[-2]
  kind = file.metadata.get("general.architecture")
  if kind != "llama" or part not in _HEADS or value.ndim != 2:
    return value
  heads = file.first(*(f"attention.{name}" for name in _HEADS[part]))
  if type(heads) is not int or heads < 1 or len(value) % (2 * heads):
    raise file.error(
      f"{shown(tensor.name)} has {len(value)} rows, which are not those of"
      f" {brief(heads)} heads"
    )
  pairs = value.reshape(heads, len(value) // heads // 2, 2, -1)
  return pairs.swapaxes(1, 2).reshape(value.shape)


def spans(path) -> list[tuple[int, int]]:
  """Returns where each tensor begins in a file, and where the next one does."""
  begins = sorted(x.data_offset for x in read(path).tensors.values())
  return [*zip(begins, [*begins[1:], path.stat().st_size], strict=False)]
