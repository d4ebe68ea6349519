"""Reads and writes the files of a checkpoint."""

import functools
import json
import pathlib
import zipfile
from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

import ml_dtypes  # noqa: F401  (teaches NumPy the name of bfloat16)
import numpy as np
import safetensors
from safetensors.numpy import save_file

from tv_jax.io import disk
from tv_jax.io.errors import UserError

# PyTorch's names of dtypes, by safetensors' names.
_DTYPES = {
  "torch.float64": "F64",
  "torch.float32": "F32",
  "torch.bfloat16": "BF16",
  "torch.float16": "F16",
}


class StoredTensor(NamedTuple):
  """A tensor in a file."""

  shape: tuple[int, ...]
  dtype: str  # by safetensors' names, or a type of the gguf package
  rows: Callable[[int, int], np.ndarray]  # reads rows from start to stop
  # Reads rows of a type in `quantised.FORMS` as its words.
  words: Callable[[int, int], np.ndarray] | None = None


def contents(paths: Sequence[pathlib.Path]) -> dict[str, StoredTensor]:
  """Returns the tensors of files by name, without reading them."""
  tensors = {}
  for path in paths:
    if path.suffix == ".bin":
      tensors |= _binary(path)
      continue
    with _open(path) as file:
      for name in file.keys():  # noqa: SIM118  (not a mapping)
        header = file.get_slice(name)
        tensors[name] = StoredTensor(
          shape=tuple(header.get_shape()),
          dtype=header.get_dtype(),
          rows=functools.partial(_rows, path, name),
        )
  return tensors


def _open(path):
  try:
    return safetensors.safe_open(path, framework="numpy")
  except (safetensors.SafetensorError, OSError) as error:
    raise _damaged(path, error) from None


def _damaged(path: pathlib.Path, error: Exception) -> ValueError:
  """Returns an error that names a file which cannot be read."""
  reason = " ".join(str(error).split())[:300]
  return UserError(
    f"{path} is truncated or is not what its name says ({reason}): download it"
    " again"
  )


def _rows(path: pathlib.Path, name: str, start: int, stop: int) -> np.ndarray:
  """Reads rows of a tensor; closes the file, so that no page stays mapped."""
  with _open(path) as file:
    return file.get_slice(name)[start:stop]


def _binary(path: pathlib.Path) -> dict[str, StoredTensor]:
  """Returns the tensors of a file in PyTorch's format."""
  try:
    import torch
  except ImportError:
    raise UserError(
      f"{path} can only be read with PyTorch: pip install 'tv-jax[parity]'"
    ) from None
  try:
    mapped = zipfile.is_zipfile(path)  # older files cannot be
    tensors = torch.load(path, "cpu", mmap=mapped, weights_only=True)
  except Exception as error:  # a damaged file can raise any error
    raise _damaged(path, error) from None

  def rows(tensor, start, stop):
    part = tensor[start:stop]  # NumPy has no bfloat16
    return (part.float() if part.is_floating_point() else part).numpy()

  return {
    name: StoredTensor(
      shape=tuple(tensor.shape),
      dtype=_DTYPES.get(str(tensor.dtype), str(tensor.dtype)),
      rows=functools.partial(rows, tensor),
    )
    for name, tensor in tensors.items()
  }


def write(directory, tensors: Mapping[str, np.ndarray], config: dict) -> None:
  """Writes tensors and a config.json in Hugging Face's layout."""
  directory = pathlib.Path(directory)
  directory.mkdir(parents=True, exist_ok=True)
  path = directory / "model.safetensors"
  save_file(dict(tensors), path, metadata={"format": "pt"})
  disk.apply_umask(path)
  text = json.dumps(config, indent=2) + "\n"
  (directory / "config.json").write_text(text)
