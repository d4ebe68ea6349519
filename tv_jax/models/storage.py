"""Finds checkpoints, reads parameters from safetensors, and writes them.

Parameters are read one at a time, the largest first, so that the host never
holds much more than what the devices hold.
"""

import functools
import json
import math
import os
import pathlib
import re
from collections.abc import Callable, Iterable, Mapping
from typing import Any, NamedTuple

import ml_dtypes  # noqa: F401  (teaches NumPy the name of bfloat16)
import numpy as np
import safetensors
from flax.traverse_util import flatten_dict, unflatten_dict
from safetensors.numpy import save_file

from tv_jax.edge import disk, reading
from tv_jax.edge.reading import brief, listed, shown
from tv_jax.models import gguf, sharding
from tv_jax.models.layout import IGNORED, Path, Weight
from tv_jax.models.params import shapes as param_shapes

REPOSITORY = re.compile(r"\w[\w.-]*/\w[\w.-]*")
INDEX = "model.safetensors.index.json"
SINGLE = "model.safetensors"
# What weights can be stored as, by safetensors' names. Others are quantised:
# their numbers mean nothing without scales that are kept elsewhere.
FLOATS = ("F64", "F32", "BF16", "F16")


def resolve(path_or_repo, revision: str | None, patterns=()) -> pathlib.Path:
  """Returns a directory that holds the checkpoint, or a GGUF file.

  Args:
    path_or_repo: A directory, a GGUF file, or a repository's name on the
      Hugging Face hub.
    revision: Of the repository: a commit, tag or branch.
    patterns: More files that are wanted from a repository.

  Returns:
    The directory or the file itself, or the hub cache's directory of that
    revision.
  """
  if not isinstance(path_or_repo, str | os.PathLike):
    raise ValueError(
      f"{brief(path_or_repo)} is no path: give a directory, or the name of a"
      " hub repository (owner/name)"
    )
  directory = os.path.expanduser(path_or_repo)
  if is_local(directory):
    if revision is not None:
      what = "file" if gguf.is_one(directory) else "directory"
      raise ValueError(
        f"{directory} is a {what} and has no revision {revision!r}: a "
        "revision goes with a hub repository"
      )
    return pathlib.Path(directory)
  if not REPOSITORY.fullmatch(str(path_or_repo)) or os.path.exists(directory):
    raise ValueError(
      f"{shown(path_or_repo)} is neither a directory nor the name of a hub "
      "repository (owner/name)"
    )
  import huggingface_hub

  try:
    return pathlib.Path(
      huggingface_hub.snapshot_download(
        str(path_or_repo),
        revision=revision,
        allow_patterns=["*.json", "*.safetensors", "tokenizer*", *patterns],
      )
    )
  except (OSError, ValueError) as error:
    reason = " ".join(str(error).split())
    raise ValueError(
      f"{path_or_repo} is not a directory, and could not be had from the hub "
      f"at revision {revision or 'main'}: {reason}"
    ) from None


def is_local(place) -> bool:
  """Returns whether a checkpoint is here: a directory or a GGUF file."""
  return os.path.isdir(place) or gguf.is_one(place)


def indexed(path: pathlib.Path) -> list[str]:
  """Returns the files that an index names."""
  return sorted({*reading.json_object(path)["weight_map"].values()})


class Stored(NamedTuple):
  """Where a tensor is, and what the file says of it."""

  path: pathlib.Path
  shape: tuple[int, ...]
  dtype: str
  read: Callable[[], np.ndarray]


def shards(directory: pathlib.Path, source) -> list[pathlib.Path]:
  """Returns the safetensors files of a checkpoint; all of them are there."""
  if os.path.lexists(directory / INDEX):
    names = indexed(directory / INDEX)
  elif os.path.lexists(directory / SINGLE):
    names = [SINGLE]
  elif files := sorted(directory.glob(f"*{gguf.SUFFIX}")):
    raise ValueError(
      f"{source} holds GGUF files, which are given by their own path: such as"
      f" {shown(files[0])}"
    )
  else:
    raise ValueError(
      f"{source} has neither {SINGLE} nor {INDEX}: if it holds PyTorch .bin "
      f"files, run `python -m tv_jax.models.checkpoint convert {source} DST` "
      "and load DST (converting needs the parity extra)"
    )
  absent = [name for name in names if not (directory / name).exists()]
  if absent:
    raise ValueError(
      f"{source} lacks {listed(map(shown, absent))}, which {INDEX} names:"
      " download them again"
    )
  return [directory / name for name in names]


def _open(path):
  try:
    return safetensors.safe_open(path, framework="numpy")
  except (safetensors.SafetensorError, OSError) as error:
    reason = " ".join(str(error).split())
    raise ValueError(
      f"{path} is truncated or is not safetensors ({reason}): download it again"
    ) from None


def contents(directory: pathlib.Path, source) -> dict[str, Stored]:
  """Returns where each tensor is, by name.

  Args:
    directory: What `resolve` returned.
    source: What errors call it.

  Returns:
    A record for each tensor in any of the checkpoint's files.
  """
  if gguf.is_one(directory):
    return {
      name: Stored(directory, *place)
      for name, place in gguf.contents(directory).items()
    }
  found = {}
  for path in shards(directory, source):
    with _open(path) as file:
      for name in file.keys():  # noqa: SIM118  (not a mapping)
        if name in found:
          raise ValueError(
            f"{path} holds {shown(name)}, and so does {found[name].path.name}:"
            " remove one or the other"
          )
        about = file.get_slice(name)
        shape, read = about.get_shape(), functools.partial(_tensor, path, name)
        found[name] = Stored(path, tuple(shape), about.get_dtype(), read)
  return found


def check(
  where, found, weights: Iterable[Weight], others=(), faults=()
) -> None:
  """Checks that a checkpoint holds the tensors of `weights`, in their shapes.

  Args:
    where: What errors call it.
    found: What `contents` returned.
    weights: The parameters wanted.
    others: Names of tensors that may be there as well.
    faults: What else is wrong with it.
  """
  wanted = {x: y for weight in weights for x, y in weight.shapes.items()}
  faults = [
    [*faults],
    [f"missing: {shown(name)}" for name in wanted if name not in found],
    [
      f"unknown: {shown(name)}"
      for name in found
      if not (name in wanted or name in others or IGNORED.fullmatch(name))
    ],
    [
      f"wrong shape: {name} is {list(found[name].shape)}, not {list(shape)}"
      for name, shape in wanted.items()
      if name in found and found[name].shape != shape
    ],
    [
      f"no floating-point weights: {name} is {found[name].dtype} (quantised"
      " ones are not supported)"
      for name in (*wanted, *others)
      if name in found and found[name].dtype not in FLOATS
    ],
  ]
  if any(faults):
    raise ValueError(
      f"{where} does not hold what its"
      f" {'metadata say' if gguf.is_one(where) else 'config.json says'}: "
      + "; ".join(listed(kind, "; ") for kind in faults if kind)
    )


def _tensor(path: pathlib.Path, name: str) -> np.ndarray:
  """Reads one tensor; its file is closed, so that no pages stay mapped."""
  with _open(path) as file:
    return file.get_tensor(name)


def read(found, weights: Mapping[Path, Weight], module: Any) -> dict:
  """Reads parameters to their devices, the largest first.

  Args:
    found: What `contents` returned, and `check` passed.
    weights: The parameters.
    module: Whose they are.

  Returns:
    The tree of parameters.
  """
  shapes, params = param_shapes(module), {}
  for path in sorted(weights, key=lambda path: -math.prod(weights[path].shape)):
    tensors = [
      _finite(found[name], name, module.config.dtype)
      for name in weights[path].tensors
    ]
    place = sharding.placement(shapes[path].names, module.mesh)
    params[path] = sharding.put(weights[path].join(tensors), place)
  return unflatten_dict(params)


def _finite(stored: Stored, name: str, dtype: str) -> np.ndarray:
  """Reads a tensor; refuses NaN and infinite weights."""
  value = stored.read()
  with np.errstate(over="ignore"):  # too large for float16: infinite
    value = value.astype(dtype, copy=False)
  # Their exponent has all bits set. np.isfinite is slow with half precision.
  bits = np.dtype(f"u{value.itemsize}")
  infinite = np.array(np.inf, value.dtype).view(bits)
  if ((value.view(bits) & infinite) == infinite).any():
    raise ValueError(
      f"{stored.path} holds weights that are not finite in {value.dtype}, in"
      f" {name}: get it again, or load it in another dtype"
    )
  return value


def write(
  directory,
  params: dict,
  weights: Mapping[Path, Weight],
  raw: dict,
  others: Mapping[str, np.ndarray],
) -> None:
  """Writes parameters and a config.json in Hugging Face's layout.

  Args:
    directory: Made if need be.
    params: The tree of parameters.
    weights: Which of them, and how.
    raw: The content of config.json.
    others: More tensors, as they are.
  """
  directory = pathlib.Path(directory)
  directory.mkdir(parents=True, exist_ok=True)
  tensors, values = dict(others), flatten_dict(params)
  for path, weight in weights.items():
    tensors |= weight.split(np.asarray(values[path]))
  try:
    save_file(tensors, directory / SINGLE, metadata={"format": "pt"})
  except safetensors.SafetensorError as error:  # such as of a full disk
    reason = " ".join(str(error).split())
    raise disk.StoreError(
      f"{directory / SINGLE} cannot be written: {reason}"
    ) from None
  disk.readable(directory / SINGLE)
  (directory / "config.json").write_text(json.dumps(raw, indent=2) + "\n")
