"""Cycles in a file; docs/replay.md has the layout."""

import json
import math
import zipfile
from typing import Any

import numpy as np

from tv_jax.edge import disk, reading
from tv_jax.models import memory
from tv_jax.proposals import Proposal
from tv_jax.replay.data import Cycles, from_arrays
from tv_jax.tree import Adaptive

# Arrays that are fields as they are; of these some may be None.
_FIELDS = (
  *("tokens", "q", "p", "item", "cycle"),
  *("verifier", "temperature", "accepted"),
)
_NAMES = (
  *("parents", "widths", "most", "proposal", "meta", "panel", "expected"),
  *_FIELDS,
)


def save(path, cycles: Cycles) -> None:
  """Writes a file, all of it or nothing."""
  tree = cycles.tree
  if isinstance(tree, Adaptive):
    shape = {
      "parents": np.asarray(cycles.parents, np.int32),
      "widths": np.array(tree.widths, np.int32),
      "most": np.array(tree.most, np.int32),
    }
  else:
    shape = {"parents": np.array(tree.parents, np.int32)}
  arrays: dict[str, Any] = shape | {
    "proposal": np.array(cycles.proposal.name),
    "meta": np.array(json.dumps(cycles.meta)),
    "panel": np.array([*cycles.expected], np.str_),
    "expected": np.array([*cycles.expected.values()], np.float32),
  }
  for name in _FIELDS:
    if (value := getattr(cycles, name)) is not None:
      arrays[name] = np.asarray(value)
  with disk.whole(path) as file:
    np.savez_compressed(file, **arrays)


def load(path, proposal: Proposal | None = None) -> Cycles:
  """Reads and checks a file of `record`, or of another program.

  What drew the siblings must be given if it is no built-in.

  Raises:
    ValueError: In one line, the file and what is wrong with it.
  """
  path = reading.regular(path)
  try:
    return from_arrays(_arrays(path), proposal)
  except ValueError as error:
    raise ValueError(f"{path}: {error}") from None


def _arrays(path) -> dict[str, np.ndarray]:
  """Returns the arrays that a file of cycles has, and no others."""
  with path.open("rb") as raw:
    if raw.read(6) == np.lib.format.MAGIC_PREFIX:
      raise ValueError("a single array: write an .npz file, with np.savez")
    try:
      file = zipfile.ZipFile(raw)
    except Exception as error:  # of a damaged directory it can be any
      raise ValueError(f"no .npz file, or cut short ({error})") from None
    with file:
      there = {*file.namelist()}
      found = [name for name in _NAMES if f"{name}.npy" in there]
      # A few bytes may stand for many: all is reckoned before any is made.
      sizes = [_member(file, name, _size) for name in found]
      needed, most = 2 * sum(sizes), memory.host()
      if most is not None and needed > most:
        raise ValueError(
          f"its arrays need {memory.told(needed)} of memory to be read and"
          f" checked, and there are {memory.told(most)}: give fewer cycles"
        )
      return {name: _member(file, name, _array) for name in found}


def _member(file, name, read):
  """Returns what is read of an array."""
  about = file.getinfo(f"{name}.npy")
  try:
    with file.open(about) as member:
      return read(member, about)
  except Exception as error:  # a foreign file can fail anywhere
    reason = reading.shown(str(error) or type(error).__name__)
    raise ValueError(f"{name!r} cannot be read ({reason})") from None


def _size(member, about) -> int:
  """The bytes that an array takes, which must be those that are there."""
  version = np.lib.format.read_magic(member)
  if version not in ((1, 0), (2, 0)):
    raise ValueError(f"it has version {version} of NumPy's format")
  header = getattr(
    np.lib.format, f"read_array_header_{version[0]}_{version[1]}"
  )
  shape, _, dtype = header(member)
  size = math.prod(shape) * dtype.itemsize
  there = about.file_size - member.tell()
  # Objects are refused as they are read.
  if not dtype.hasobject and (
    min(shape, default=0) < 0 or not dtype.itemsize or size != there
  ):
    raise ValueError(
      f"its header says {reading.brief([*shape])} of {dtype}, and {there} bytes"
      " are there"
    )
  return size


def _array(member, about) -> np.ndarray:
  del about
  array = np.lib.format.read_array(member, allow_pickle=False)
  member.read()  # to the end, where the check sum is compared
  return array
