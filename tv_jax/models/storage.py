"""Finds checkpoints, and reads and writes their files."""

import functools
import json
import os
import pathlib
import re
from collections.abc import Mapping

import ml_dtypes  # noqa: F401  (teaches NumPy the name of bfloat16)
import numpy as np
import safetensors
from safetensors.numpy import save_file

from tv_jax.edge import disk
from tv_jax.edge.reading import brief
from tv_jax.models import gguf
from tv_jax.models.layout import StoredTensor

REPOSITORY = re.compile(r"\w[\w.-]*/\w[\w.-]*")
SINGLE = "model.safetensors"
_PATTERNS = ("*.json", "*.safetensors", "tokenizer*", "*.jinja", "merges.txt")


def resolve(path_or_repo, revision: str | None, patterns=()) -> pathlib.Path:
  """Returns the path of a checkpoint, a directory or a GGUF file.

  Args:
    path_or_repo: A directory, a GGUF file, or a repository's name on the
      Hugging Face hub.
    revision: The repository's commit, tag or branch.
    patterns: Patterns of additional files to download.

  Returns:
    The given path, or the hub cache's directory of that revision.
  """
  if not isinstance(path_or_repo, str | os.PathLike):
    raise ValueError(
      f"{brief(path_or_repo)} is no path: give a directory, or the name of a"
      " hub repository (owner/name)"
    )
  directory = os.path.expanduser(path_or_repo)
  if is_local(directory):
    if revision is not None:
      raise ValueError(
        f"{directory} is here and has no revision {revision!r}: a revision goes"
        " with a hub repository"
      )
    return pathlib.Path(directory)
  if not REPOSITORY.fullmatch(str(path_or_repo)) or os.path.exists(directory):
    raise ValueError(
      f"{path_or_repo} is neither a directory nor the name of a hub "
      "repository (owner/name)"
    )
  import huggingface_hub

  try:
    return pathlib.Path(
      huggingface_hub.snapshot_download(
        str(path_or_repo),
        revision=revision,
        allow_patterns=[*_PATTERNS, *patterns],
      )
    )
  except (OSError, ValueError) as error:
    reason = " ".join(str(error).split())
    raise ValueError(
      f"{path_or_repo} is not a directory, and could not be had from the hub "
      f"at revision {revision or 'main'}: {reason}"
    ) from None


def is_local(place) -> bool:
  """Returns whether a checkpoint is local: a directory or a GGUF file."""
  return os.path.isdir(place) or gguf.is_file(place)


def shards(directory: pathlib.Path, single: str) -> list[pathlib.Path]:
  """Returns a checkpoint's files with weights: `single`, or its shards."""
  if (directory / single).exists():
    return [directory / single]
  paths = sorted(directory.glob(f"*model-*-of-*{pathlib.Path(single).suffix}"))
  for path in paths[:1]:
    count = int(path.stem.rpartition("-of-")[2])
    if count != len(paths):
      raise ValueError(
        f"{directory} has {len(paths)} of {count} files like {path.name}:"
        " download it again"
      )
  return paths


def _open(path):
  try:
    return safetensors.safe_open(path, framework="numpy")
  except (safetensors.SafetensorError, OSError) as error:
    reason = " ".join(str(error).split())
    raise ValueError(
      f"{path} is truncated or is not safetensors ({reason}): download it again"
    ) from None


def contents(directory: pathlib.Path, source) -> dict[str, StoredTensor]:
  """Returns a checkpoint's tensors by name, without reading them.

  Args:
    directory: The path that `resolve` returned.
    source: Name of the checkpoint in error messages.
  """
  if gguf.is_file(directory):
    return gguf.contents(directory)
  if files := sorted(directory.glob(f"*{gguf.SUFFIX}")):
    raise ValueError(
      f"{source} holds GGUF files, which are given by their own path: such as"
      f" {files[0]}"
    )
  paths = shards(directory, SINGLE)
  if not paths:
    raise ValueError(
      f"{source} has no {SINGLE} and no shards of it: if it holds PyTorch .bin "
      f"files, run `python -m tv_jax.models.checkpoint convert {source} DST` "
      "and load DST (converting needs the parity extra)"
    )
  tensors = {}
  for path in paths:
    with _open(path) as file:
      for name in file.keys():  # noqa: SIM118  (not a mapping)
        if name in tensors:
          raise ValueError(
            f"{path} holds {name}, and so does"
            f" {tensors[name].path.name}: remove one or the other"
          )
        header = file.get_slice(name)
        tensors[name] = StoredTensor(
          path=path,
          shape=tuple(header.get_shape()),
          dtype=header.get_dtype(),
          rows=functools.partial(_rows, path, name),
        )
  return tensors


def _rows(path: pathlib.Path, name: str, start: int, stop: int) -> np.ndarray:
  """Reads rows of a tensor; closes the file, so that no page stays mapped."""
  with _open(path) as file:
    return file.get_slice(name)[start:stop]


def write(directory, tensors: Mapping[str, np.ndarray], config: dict) -> None:
  """Writes tensors and a config.json in Hugging Face's layout."""
  directory = pathlib.Path(directory)
  directory.mkdir(parents=True, exist_ok=True)
  try:
    save_file(dict(tensors), directory / SINGLE, metadata={"format": "pt"})
  except safetensors.SafetensorError as error:  # such as a full disk
    reason = " ".join(str(error).split())
    raise disk.StoreError(
      f"{directory / SINGLE} cannot be written: {reason}"
    ) from None
  disk.readable(directory / SINGLE)
  text = json.dumps(config, indent=2) + "\n"
  (directory / "config.json").write_text(text)
