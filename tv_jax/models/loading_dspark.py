"""Loads drafts of one pass, DSpark's and DFlash's, from their checkpoints."""

import numpy as np

from tv_jax.models import config as configs
from tv_jax.models import dspark, gguf, heads, loading, storage
from tv_jax.models.config import Config
from tv_jax.models.layout import EMBEDDING, UNEMBEDDING
from tv_jax.models.model import Model

# Copies of the target's weights, by parameter.
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
  config = configs.from_dict(raw, str(path), dspark.FORMAT)
  loading.check_vocabularies(target, config)
  return dspark.fitted(config, target, path)


def load_dspark(
  path_or_repo, target: Model, revision: str | None = None
) -> Model:
  """Loads a draft of one pass for `target`, in its dtype, on its devices.

  The embedding and unembedding that published drafts store are copies of the
  target's: they are compared with them, and not kept.

  Arguments, result and errors are those of `load_eagle`.
  """
  loading.check_target(target)
  directory = storage.resolve(path_or_repo, revision)
  config = read_dspark_config(directory, target.config)
  tensors = storage.contents(directory, path_or_repo)
  module = dspark.DSpark(config, target.mesh)
  params = loading.read_params(
    path_or_repo, tensors, module, target, _COPIES.values()
  )
  for name, copy in _COPIES.items():
    matrix = target.params.get(name, target.params["embedding"])
    # What is not all on this machine is not compared.
    if copy not in tensors or not matrix.is_fully_addressable:
      continue
    if not _is_near(
      tensors[copy].read(), np.asarray(matrix).T, gguf.is_one(target.source)
    ):
      raise ValueError(
        f"{path_or_repo}: {copy} is not that of {target.source}: it was made"
        " for another target"
      )
  return Model(
    module=module,
    params=params,
    source=loading.source_of(path_or_repo, directory),
  )


def _is_near(copy: np.ndarray, matrix: np.ndarray, quantised: bool) -> bool:
  """Returns whether a copy is the target's, perhaps in another dtype."""
  if copy.shape != matrix.shape:
    return False
  with np.errstate(over="ignore"):
    for x, y in ((copy, matrix), (matrix, copy)):
      if np.array_equal(x.astype(y.dtype), y):
        return True
  if not quantised:
    return False
  copy, matrix = copy.astype(np.float32), matrix.astype(np.float32)
  return bool(
    np.linalg.norm(copy - matrix) <= _ROUNDED * np.linalg.norm(matrix)
  )
