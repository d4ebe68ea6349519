"""Cycles in a file; docs/replay.md has the layout."""

import json
from typing import Any

import numpy as np

from tv_jax.edge import disk, reading
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
    try:
      file = np.load(raw, allow_pickle=False)
    except Exception as error:  # of a damaged directory it can be any
      raise ValueError(f"no .npz file, or cut short ({error})") from None
    if isinstance(file, np.ndarray):
      raise ValueError("a single array: write an .npz file, with np.savez")
    return {name: _array(file, name) for name in _NAMES if name in file}


def _array(file, name) -> np.ndarray:
  """Returns an array of the file."""
  try:
    return file[name]
  except Exception as error:  # of a damaged one it can be any
    raise ValueError(f"{name!r} cannot be read ({error})") from None
