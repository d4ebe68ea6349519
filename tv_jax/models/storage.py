"""Safetensors on disk to parameters on devices, and back.

One parameter at a time, the largest first, so that the host never holds much
more than what the devices hold.
"""

import json
import os
import pathlib
from typing import NamedTuple

import jax
import ml_dtypes  # noqa: F401  (teaches NumPy the name of bfloat16)
import numpy as np
import safetensors
from flax.core import meta
from jax.sharding import Mesh
from safetensors.numpy import save_file

from tv_jax.edge import reading
from tv_jax.edge.reading import listed, shown
from tv_jax.models import folders, products, quantised, sharding
from tv_jax.models.config import Config
from tv_jax.models.layout import IGNORED, Leaf
from tv_jax.models.quantised import Quantised

INDEX = "model.safetensors.index.json"
SINGLE = "model.safetensors"
# What weights can be stored as, by safetensors' names. Others are quantised:
# their numbers mean nothing without scales that are kept elsewhere.
FLOATS = ("F64", "F32", "BF16", "F16")


class Stored(NamedTuple):
  """Where a tensor is, and what the file says of it."""

  path: pathlib.Path
  shape: tuple[int, ...]
  dtype: str


def shards(directory: pathlib.Path, source) -> list[pathlib.Path]:
  """The safetensors files of a checkpoint, all of them there."""
  if os.path.lexists(directory / INDEX):
    names = folders.indexed(directory / INDEX, ".safetensors")
  elif os.path.lexists(directory / SINGLE):
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
      f"{source} lacks {listed(map(shown, absent))}, which {INDEX} names:"
      " download them again"
    )
  return [reading.regular(directory / name) for name in names]


def _open(path):
  try:
    return safetensors.safe_open(path, framework="numpy")
  except (safetensors.SafetensorError, OSError) as error:
    reason = " ".join(str(error).split())
    raise ValueError(
      f"{path} is truncated or is not safetensors ({reason}): download it again"
    ) from None


def contents(directory: pathlib.Path, source) -> dict[str, Stored]:
  """What there is of each tensor, by name.

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
        if name in found:
          raise ValueError(
            f"{path} holds {shown(name)}, and so does {found[name].path.name}:"
            " remove one or the other"
          )
        about = file.get_slice(name)
        found[name] = Stored(path, tuple(about.get_shape()), about.get_dtype())
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
  faults = [
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
      f"{where} does not hold what its config.json says: "
      + "; ".join(listed(kind, "; ") for kind in faults if kind)
    )


def tensor(found, name: str) -> np.ndarray:
  """One tensor; its file is closed again, so that no pages stay mapped."""
  with _open(found[name].path) as file:
    return file.get_tensor(name)


def read(
  found,
  leaves: list[Leaf],
  config: Config,
  mesh: Mesh | None,
  *,
  turned: bool = False,
) -> dict:
  """Reads parameters to their devices.

  Args:
    found: What `contents` returned, and `check` passed.
    leaves: The parameters.
    config: What they are to be: its dtype, or of eight bits.
    mesh: The devices to split them over; None for the default device.
    turned: As of `loading.load`.

  Returns:
    The tree of parameters.
  """
  params = {}
  for leaf in sorted(leaves, key=lambda leaf: -leaf.size):
    channels = leaf.channels(config)
    # What is to be quantised stays as stored till then, if all parts are alike.
    alike = len({found[part.name].dtype for part in leaf.parts}) == 1
    dtype = "float32" if channels else config.dtype
    value = leaf.put_together(
      [
        one if channels and alike else one.astype(dtype, copy=False)
        for one in (tensor(found, part.name) for part in leaf.parts)
      ]
    )
    node = params
    for name in leaf.path[:-1]:
      node = node.setdefault(name, {})
    place = sharding.placement(leaf.axes, mesh)
    if not channels:
      num_out = leaf.num_out(config)
      if turned and num_out and mesh is None:
        value = products.turn(value, num_out)
      node[leaf.path[-1]] = sharding.put(value, place)
      continue
    try:
      values, scale = quantised.quantise(value, len(channels))
    except ValueError as error:
      first = leaf.parts[0].name
      raise ValueError(
        f"{found[first].path} holds {error}, in {first} or what is kept with"
        " it: no eight bits stand for it"
      ) from None
    node[leaf.path[-1]] = Quantised(
      sharding.put(values, place),
      sharding.put(scale, sharding.placement(channels, mesh)),
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
    host = jax.tree.map(np.asarray, value)
    tensors |= leaf.take_apart(meta.unbox(host))
  save_file(tensors, directory / SINGLE, metadata={"format": "pt"})
  (directory / "config.json").write_text(json.dumps(raw, indent=2) + "\n")
