"""One stage's state on disk: written whole or not at all."""

import hashlib
import json
import os
import pathlib

import jax
import numpy as np


def fingerprint(settings: dict) -> str:
  """A short name of what a state depends on."""
  text = json.dumps(settings, sort_keys=True)
  return hashlib.sha256(text.encode()).hexdigest()[:16]


def save(path: pathlib.Path, name: str, step: int, state) -> None:
  """Writes `state`, a pytree, after `step` steps.

  Whoever is killed meanwhile finds the checkpoint before this one.
  """
  leaves = [np.asarray(leaf) for leaf in jax.tree.leaves(state)]
  temporary = path.with_suffix(".partial")
  with temporary.open("wb") as file:
    np.savez(file, *leaves, name=name, step=step)
    file.flush()
    os.fsync(file.fileno())
  temporary.replace(path)
  folder = os.open(path.parent, os.O_RDONLY)
  try:
    os.fsync(folder)
  finally:
    os.close(folder)


def restore(path: pathlib.Path, name: str, like):
  """Reads what `save` wrote.

  Args:
    path: The file.
    name: The fingerprint that it must have.
    like: A state of the same structure.

  Returns:
    The step and the state, or 0 and `like` if there is no such file.
  """
  if not path.exists():
    return 0, like
  leaves, tree = jax.tree.flatten(like)
  with np.load(path, allow_pickle=False) as file:
    if str(file["name"]) != name:
      raise ValueError(
        f"{path} is of a run with other settings: use them again, or another "
        "--workdir"
      )
    read = [file[f"arr_{i}"] for i in range(len(leaves))]
    step = int(file["step"])
  return step, tree.unflatten(
    jax.numpy.asarray(new, old.dtype)
    for new, old in zip(read, leaves, strict=True)
  )
