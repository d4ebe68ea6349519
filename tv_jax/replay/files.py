"""Cycles in a file; docs/replay.md has the layout."""

import json
import pathlib
import zipfile
import zlib

import numpy as np

from tv_jax import store
from tv_jax.proposals import Proposal
from tv_jax.replay import checks
from tv_jax.replay.data import Cycles

# Arrays that are written only if there is something to write.
_OPTIONAL = ("verifier", "temperature", "accepted")


def save(path, cycles: Cycles) -> None:
  """Writes a file, all of it or nothing."""
  tree = cycles.tree
  if cycles.parents is None:
    shape = {"parents": np.array(tree.parents, np.int32)}
  else:
    shape = {
      "parents": np.asarray(cycles.parents, np.int32),
      "widths": np.array(tree.widths, np.int32),
      "most": np.array(tree.most, np.int32),
    }
  arrays = shape | {
    "proposal": np.array(cycles.proposal.name),
    "meta": np.array(json.dumps(cycles.meta)),
    "panel": np.array([*cycles.expected], np.str_),
    "expected": np.array([*cycles.expected.values()], np.float32),
  }
  for name in ("tokens", "q", "p", "item", "cycle", *_OPTIONAL):
    if (value := getattr(cycles, name)) is not None:
      arrays[name] = np.asarray(value)
  with store.whole(path) as file:
    np.savez_compressed(file, **arrays)


def load(path, proposal: Proposal | None = None) -> Cycles:
  """Reads and checks a file of `record`, or of another program.

  What drew the siblings must be given if it is no built-in.

  Raises:
    ValueError: In one line, the file and what is wrong with it.
  """
  try:
    return checks.cycles(_arrays(pathlib.Path(path)), proposal)
  except OSError as error:
    reason = error.strerror or error
  except (zipfile.BadZipFile, zlib.error, EOFError, NotImplementedError):
    # The last is zipfile's, of a method that a damaged byte names.
    reason = "no .npz file, or cut short"
  except ValueError as error:
    reason = error
  raise ValueError(f"{path}: {reason}")


def _arrays(path) -> dict[str, np.ndarray]:
  if path.exists() and not (path.is_file() or path.is_dir()):
    raise ValueError("a pipe or a device, and no file")
  with path.open("rb") as raw:
    try:
      file = np.load(raw, allow_pickle=False)
    except ValueError:  # what is no NumPy file is taken for a pickle
      raise zipfile.BadZipFile from None
    if not isinstance(file, np.lib.npyio.NpzFile):
      raise ValueError("a single array: write an .npz file, with np.savez")
    with file:
      return {name: file[name] for name in file.files}
