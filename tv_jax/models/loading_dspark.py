"""Loads drafts of one pass, DSpark's and DFlash's, from their checkpoints."""

import jax
import numpy as np

from tv_jax.models import (
  dspark,
  families,
  gguf,
  heads,
  loading,
  products,
  storage,
)
from tv_jax.models.config import Config
from tv_jax.models.layout import EMBEDDING, UNEMBEDDING
from tv_jax.models.model import Model

# Copies of the target's weights, by what the target's checkpoint calls them.
_COPIES = {
  "embedding": EMBEDDING.removeprefix("model."),
  "unembedding": UNEMBEDDING,
}
# How far four bits or fewer may move them; those of another model are farther
# away than 1.
_ROUNDED = 0.3


def read_dspark_config(directory, target: Config) -> Config:
  """Reads a directory's config.json, without the weights.

  Args:
    directory: In the published layout.
    target: The configuration of the model that it drafts for.

  Returns:
    The configuration, with what it takes from its target's.

  Raises:
    ValueError: In one line, all that is wrong with the file.
  """
  path, raw = loading.raw_config(directory, "dspark")
  if heads.kind_said(raw) is None:
    raise ValueError(
      f"{path} is no DSpark or DFlash draft's; a model of its own drafts with"
      ' draft_kind="independent"'
    )
  config = families.from_dict(raw, str(path), dspark.FORMAT)
  loading.check_vocabularies(target, config)
  return dspark.fitted(config, target, path)


def load_dspark(
  path_or_repo, target: Model, revision: str | None = None
) -> Model:
  """Loads a draft of one pass for `target`, in its dtype, on its devices.

  The embedding and unembedding that published drafts store are copies of the
  target's: they are compared with them, and not kept.

  Args:
    path_or_repo: A directory in the published layout, or a repository.
    target: The model that it drafts for.
    revision: Of a repository: a commit, for runs that can be repeated.

  Returns:
    The draft.

  Raises:
    ValueError: In one line, all that is wrong with the checkpoint.
  """
  loading.check_target(target)
  directory = storage.resolve(path_or_repo, revision)
  config = read_dspark_config(directory, target.config)
  found = storage.contents(directory, path_or_repo)
  params = loading.read_head(
    path_or_repo,
    found,
    config,
    dspark.leaves(config),
    target,
    [*_COPIES.values()],
  )
  _compare(path_or_repo, found, target)
  return Model(
    module=dspark.DSpark(config, target.mesh),
    params=params,
    source=loading.source_of(path_or_repo, directory, config),
  )


def _compare(where, found, target: Model) -> None:
  """Refuses a draft whose copies are not the target's weights.

  Those of a GGUF file may have been rounded to few bits. What has eight bits
  here, or is not all here, is not compared.
  """
  source = target.source.removesuffix(f" in {target.config.kept}")
  far = _ROUNDED if gguf.is_one(source) else 0
  theirs = target.params
  for name, copy in _COPIES.items():
    weight = theirs.get(name, theirs["embedding"])
    if copy not in found or isinstance(weight, products.Quantised):
      continue
    if not all(x.is_fully_addressable for x in jax.tree.leaves(weight)):
      continue
    if found[copy].shape != weight.shape or not _is_near(
      copy, found[copy], weight, far
    ):
      raise ValueError(
        f"{where}: {copy} is not that of {target.source}: it was made for"
        " another target"
      )


def _is_near(name: str, stored: storage.Stored, weight, far: float) -> bool:
  """Returns whether a copy is the weight, some rows at a time.

  One of the two may be the other one, rounded to its dtype; else they may be
  `far` times the weight's size apart.
  """
  apart = size = 0.0
  for which, own in storage.blocks(stored, name):
    ours = np.asarray(products.unboxed(products.some_rows(weight, which)))
    if _is_rounded(own, ours) or _is_rounded(ours, own):
      continue
    if not far:
      return False
    own, ours = own.astype(np.float64), ours.astype(np.float64)
    apart += np.sum((own - ours) ** 2)
    size += np.sum(ours**2)
  return bool(apart <= far**2 * size)


def _is_rounded(rounded, whole) -> bool:
  """Returns whether the first is the second in another dtype."""
  with np.errstate(over="ignore"):
    return np.array_equal(whole.astype(rounded.dtype), rounded)
