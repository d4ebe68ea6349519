"""Loads drafts of one pass, DSpark's and DFlash's, from their checkpoints."""

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
from tv_jax.models.model import BlockDraft, Model

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
) -> BlockDraft:
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
  return BlockDraft(
    config=config,
    params=params,
    apply=dspark.DSpark(config, target.mesh).apply,
    mesh=target.mesh,
    source=loading.source_of(path_or_repo, directory, config),
  )


def _compare(where, found, target: Model) -> None:
  """Refuses a draft whose copies are not the target's weights.

  Those of a GGUF file may have been rounded to few bits. What has eight bits
  here, or is not all here, is not compared.
  """
  far = _ROUNDED if gguf.is_one(target.source) else 0
  theirs = target.params["params"]
  for name, copy in _COPIES.items():
    weight = products.unboxed(theirs.get(name, theirs["embedding"]))
    if copy not in found or isinstance(weight, products.Quantised):
      continue
    if not weight.is_fully_addressable:
      continue
    own, ours = found[copy].read(), np.asarray(weight)
    coarser = min(own.dtype, ours.dtype, key=lambda dtype: dtype.itemsize)
    same = own.shape == ours.shape and (
      np.array_equal(own.astype(coarser), ours.astype(coarser))
      or _distance(own, ours) < far
    )
    if not same:
      raise ValueError(
        f"{where}: {copy} is not that of {target.source}: it was made for"
        " another target"
      )


def _distance(own, ours) -> float:
  """Returns how far some thousand rows are apart, by the size of ours."""
  some = slice(None, None, max(1, len(ours) // 4096))
  own, ours = (x[some].astype(np.float32) for x in (own, ours))
  return float(np.linalg.norm(own - ours) / np.linalg.norm(ours))
