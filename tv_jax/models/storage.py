"""Finds checkpoints, and reads and writes their files."""

import functools
import json
import os
import pathlib
import re
import zipfile
from collections.abc import Mapping

import ml_dtypes  # noqa: F401  (teaches NumPy the name of bfloat16)
import numpy as np
import safetensors
from safetensors.numpy import save_file

from tv_jax.io import disk
from tv_jax.io.errors import UserError
from tv_jax.models import gguf
from tv_jax.models.layout import StoredTensor

REPOSITORY = re.compile(r"\w[\w.-]*/\w[\w.-]*")
SINGLE = "model.safetensors"
_PATTERNS = ("*.json", "*.safetensors", "tokenizer*", "*.jinja", "merges.txt")
_BINARY = "pytorch_model*.bin"
# PyTorch's names of dtypes, by safetensors' names.
_DTYPES = {
  "torch.float64": "F64",
  "torch.float32": "F32",
  "torch.bfloat16": "BF16",
  "torch.float16": "F16",
}


def resolve(path_or_repo, revision: str | None) -> pathlib.Path:
  """Returns the path of a checkpoint, a directory or a GGUF file.

  Args:
    path_or_repo: A directory, a GGUF file, or a repository's name on the
      Hugging Face hub.
    revision: The repository's commit, tag or branch.

  Returns:
    The given path, or the hub cache's directory of that revision.
  """
  directory = os.path.expanduser(path_or_repo)
  if is_local(directory):
    if revision is not None:
      raise UserError(
        f"{directory} is here and has no revision {revision!r}: a revision goes"
        " with a hub repository"
      )
    return pathlib.Path(directory)
  if not REPOSITORY.fullmatch(str(path_or_repo)) or os.path.exists(directory):
    raise UserError(
      f"{path_or_repo} is neither a directory nor the name of a hub "
      "repository (owner/name)"
    )
  import huggingface_hub

  def download(*patterns):
    return pathlib.Path(
      huggingface_hub.snapshot_download(
        str(path_or_repo), revision=revision, allow_patterns=[*patterns]
      )
    )

  try:
    directory = download(*_PATTERNS)
    return directory if weights(directory) else download(*_PATTERNS, _BINARY)
  except (OSError, ValueError) as error:
    reason = " ".join(str(error).split())
    raise UserError(
      f"{path_or_repo} is not a directory, and could not be had from the hub "
      f"at revision {revision or 'main'}: {reason}"
    ) from None


def is_local(place) -> bool:
  """Returns whether a checkpoint is local: a directory or a GGUF file."""
  return os.path.isdir(place) or gguf.is_file(place)


def weights(directory: pathlib.Path) -> list[pathlib.Path]:
  """Returns a checkpoint's files with weights: safetensors, or else .bin."""
  for single in (SINGLE, "pytorch_model.bin"):
    if (directory / single).exists():
      return [directory / single]
    suffix = pathlib.Path(single).suffix
    paths = sorted(directory.glob(f"*model-*-of-*{suffix}"))
    for path in paths[:1]:
      count = int(path.stem.rpartition("-of-")[2])
      if count != len(paths):
        raise UserError(
          f"{directory} has {len(paths)} of {count} files like {path.name}:"
          " download it again"
        )
      return paths
  return []


def contents(directory: pathlib.Path, source) -> dict[str, StoredTensor]:
  """Returns a checkpoint's tensors by name, without reading them.

  Args:
    directory: The path that `resolve` returned.
    source: Name of the checkpoint in error messages.
  """
  if gguf.is_file(directory):
    return gguf.contents(directory)
  if files := sorted(directory.glob(f"*{gguf.SUFFIX}")):
    raise UserError(
      f"{source} holds GGUF files, which are given by their own path: such as"
      f" {files[0]}"
    )
  paths = weights(directory)
  if not paths:
    raise UserError(f"{source} has no {SINGLE} and no shards of it")
  tensors = {}
  for path in paths:
    if path.suffix == ".bin":
      tensors |= _binary(path)
      continue
    with _open(path) as file:
      for name in file.keys():  # noqa: SIM118  (not a mapping)
        header = file.get_slice(name)
        tensors[name] = StoredTensor(
          path=path,
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
    tensors = torch.load(
      path,
      map_location="cpu",
      mmap=zipfile.is_zipfile(path),  # older files cannot be mapped
      weights_only=True,
    )
  except Exception as error:  # a damaged file can raise any error
    raise _damaged(path, error) from None

  def rows(tensor, start, stop):
    part = tensor[start:stop]  # NumPy has no bfloat16
    return (part.float() if part.is_floating_point() else part).numpy()

  return {
    name: StoredTensor(
      path=path,
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
  save_file(dict(tensors), directory / SINGLE, metadata={"format": "pt"})
  disk.apply_umask(directory / SINGLE)
  text = json.dumps(config, indent=2) + "\n"
  (directory / "config.json").write_text(text)
