"""Safetensors on disk to parameters on devices, and back.

One parameter at a time, the largest first, so that the host never holds much
more than what the devices hold.
"""

import json
import pathlib
import re

import jax
import ml_dtypes  # noqa: F401  (teaches NumPy the name of bfloat16)
import numpy as np
import safetensors
from jax.sharding import Mesh
from safetensors.numpy import save_file

from tv_jax.models import sharding
from tv_jax.models.config import read_json
from tv_jax.models.layout import IGNORED, Leaf

INDEX = "model.safetensors.index.json"
SINGLE = "model.safetensors"
REPOSITORY = re.compile(r"\w[\w.-]*/\w[\w.-]*")


def resolve(path_or_repo, revision: str | None, patterns=()) -> pathlib.Path:
  """A directory that holds the checkpoint.

  Args:
    path_or_repo: A directory, or a repository's name on the Hugging Face hub.
    revision: Of the repository: a commit, tag or branch.
    patterns: More files that are wanted from a repository.

  Returns:
    The directory itself, or the hub cache's directory of that revision.
  """
  directory = pathlib.Path(path_or_repo).expanduser()
  if directory.is_dir():
    if revision is not None:
      raise ValueError(
        f"{directory} is a directory and has no revision {revision!r}: a "
        "revision goes with a hub repository"
      )
    return directory
  if not REPOSITORY.fullmatch(str(path_or_repo)) or directory.exists():
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
        allow_patterns=["*.json", "*.safetensors", "tokenizer*", *patterns],
      )
    )
  except (OSError, ValueError) as error:
    reason = " ".join(str(error).split())
    raise ValueError(
      f"{path_or_repo} is not a directory, and could not be had from the hub "
      f"at revision {revision or 'main'}: {reason}"
    ) from None


def shards(directory: pathlib.Path, source) -> list[pathlib.Path]:
  """The safetensors files of a checkpoint, all of them there."""
  if (directory / INDEX).exists():
    names = sorted(set(read_json(directory / INDEX)["weight_map"].values()))
  elif (directory / SINGLE).exists():
    names = [SINGLE]
  else:
    raise ValueError(
      f"{source} has neither {SINGLE} nor {INDEX}: if it holds PyTorch .bin "
      f"files, run `python -m tv_jax.models.checkpoint convert {source} DST` "
      "and load DST (converting needs the parity extra)"
    )
  absent = [name for name in names if not (directory / name).exists()]
  if absent:
    raise ValueError(
      f"{source} lacks {', '.join(absent)}, which {INDEX} names: download "
      "them again"
    )
  return [directory / name for name in names]


def _open(path):
  try:
    return safetensors.safe_open(path, framework="numpy")
  except safetensors.SafetensorError as error:
    raise ValueError(
      f"{path} is truncated or is not safetensors ({error}): download it again"
    ) from None


def contents(
  directory: pathlib.Path, source
) -> dict[str, tuple[pathlib.Path, tuple[int, ...]]]:
  """The file and the shape of each tensor, by name.

  Args:
    directory: What `resolve` returned.
    source: What errors call it.

  Returns:
    A record for each tensor in any of the checkpoint's files.
  """
  found = {}
  for path in shards(directory, source):
    with _open(path) as file:
      for name in file.keys():  # noqa: SIM118  (not a mapping)
        found[name] = path, tuple(file.get_slice(name).get_shape())
  return found


def check(where, found, leaves: list[Leaf], others=()) -> None:
  """Whether a checkpoint holds the tensors of `leaves`, each in its shape.

  Args:
    where: What errors call it.
    found: What `contents` returned.
    leaves: The parameters wanted.
    others: Names of tensors that may be there as well.
  """
  wanted = {part.name: part.shape for leaf in leaves for part in leaf.parts}
  faults = [f"missing: {name}" for name in wanted if name not in found]
  faults += [
    f"unknown: {name}"
    for name in found
    if name not in wanted and name not in others and not IGNORED.fullmatch(name)
  ]
  faults += [
    f"wrong shape: {name} is {list(found[name][1])}, not {list(shape)}"
    for name, shape in wanted.items()
    if name in found and found[name][1] != shape
  ]
  if faults:
    raise ValueError(
      f"{where} does not hold what its config.json says: " + "; ".join(faults)
    )


def tensor(found, name: str) -> np.ndarray:
  """One tensor; its file is closed again, so that no pages stay mapped."""
  with _open(found[name][0]) as file:
    return file.get_tensor(name)


def read(found, leaves: list[Leaf], dtype, mesh: Mesh | None) -> dict:
  """Reads parameters to their devices.

  Args:
    found: What `contents` returned, and `check` passed.
    leaves: The parameters.
    dtype: Of the result.
    mesh: The devices to split them over; None for the default device.

  Returns:
    The tree of parameters.
  """
  params = {}
  for leaf in sorted(leaves, key=lambda leaf: -leaf.size):
    value = leaf.put_together(
      [
        tensor(found, part.name).astype(dtype, copy=False)
        for part in leaf.parts
      ]
    )
    node = params
    for name in leaf.path[:-1]:
      node = node.setdefault(name, {})
    node[leaf.path[-1]] = jax.device_put(
      value, sharding.placement(leaf.axes, mesh)
    )
  return params


def write(directory, params: dict, leaves: list[Leaf], raw: dict) -> None:
  """Writes parameters and a config.json in Hugging Face's layout."""
  directory = pathlib.Path(directory)
  directory.mkdir(parents=True, exist_ok=True)
  tensors = {}
  for leaf in leaves:
    value = params
    for name in leaf.path:
      value = value[name]
    tensors |= leaf.take_apart(np.asarray(value))
  save_file(tensors, directory / SINGLE, metadata={"format": "pt"})
  (directory / "config.json").write_text(json.dumps(raw, indent=2) + "\n")
