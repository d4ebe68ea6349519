"""Loads models and drafts from checkpoints, and saves them."""

import dataclasses
import os
import sys
from typing import Any

import jax
import numpy as np
from flax.traverse_util import flatten_dict
from jax.sharding import Mesh

from tv_jax.io.errors import UserError
from tv_jax.models import (
  borrowed,
  layout,
  native,
  parameters,
  quantised,
  sharding,
  storage,
)
from tv_jax.models import config as configs
from tv_jax.models.checkpoint import Checkpoint
from tv_jax.models.config import Config
from tv_jax.models.decoder import Decoder
from tv_jax.models.model import Model
from tv_jax.models.storage import StoredTensor

# How quantised weights are held; see `load`.
STORED, DEQUANTISED = "stored", "dequantised"


def load(
  place: str | os.PathLike | Checkpoint,
  dtype=None,
  mesh: Mesh | None = None,
  revision: str | None = None,
  *,
  weights: str = STORED,
  kind: Any = Decoder,
  target: Model | None = None,
) -> Model:
  """Loads a language model of one of `families.FAMILIES`, or a draft.

  Args:
    place: A directory in Hugging Face's layout, a GGUF file, a repository on
      the hub, or an open checkpoint; see `Checkpoint.open`.
    dtype: float32, bfloat16 or float16; by default as stored.
    mesh: The devices to split the model over (`sharding.mesh`); None for one
      device.
    revision: The repository's commit, tag or branch.
    weights: "stored" keeps the quantised weights of a GGUF file on a CPU, if
      there is a C++ compiler and the model's dtype is float32. In all other
      cases, and with "dequantised", they become arrays of the model's dtype.
    kind: The Linen module's class. `drafting.load` recognises that of a draft.
    target: The target of a draft. A draft that uses the target's embedding has
      its dtype and devices.

  Returns:
    The model.

  Raises:
    ValueError: If the checkpoint is not valid; one line lists all faults.
  """
  if weights not in (STORED, DEQUANTISED):
    raise UserError(
      f"weights={weights!r} is not one of {STORED}, {DEQUANTISED}"
    )
  checkpoint = Checkpoint.open(place, revision)
  where, source = str(checkpoint.config_path), checkpoint.source
  config = configs.from_dict(checkpoint.config, where, kind.format)
  tensors = checkpoint.tensors
  try:
    if config.shares_embedding or kind is not Decoder:
      config = borrowed.completed(config, target, kind.format, tensors)
      mesh = target and target.mesh
    else:
      config = _of_dtype(config, dtype)
  except ValueError as error:
    raise UserError(f"{where}: {error}") from None
  if weights != STORED or not _keeps_quantised(checkpoint, config, mesh):
    tensors = {name: x._replace(words=None) for name, x in tensors.items()}
  sharding.check(config, mesh)
  module = kind(config, mesh)
  table = parameters.stored(module)
  try:
    parameters.check(table, tensors, quantised=checkpoint.is_gguf)
    known = borrowed.known_tokens(tensors, config)
    params = parameters.read(
      table, tensors, config.dtype, mesh, target and target.params
    )
    if module.of_target:
      assert target is not None
      params |= borrowed.params(target, known, module.of_target)
    elif config.tie_word_embeddings and layout.UNEMBEDDING in tensors:
      _check_copy(tensors[layout.UNEMBEDDING], params["embedding"])
  except UserError as error:
    raise UserError(f"{source}: {error}") from None
  return Model(module=module, params=params, source=source)


def _of_dtype(config: Config, dtype) -> Config:
  """Returns the configuration with this dtype, by default the stored one."""
  name = config.dtype if dtype is None else dtype
  if not isinstance(name, str):  # such as jnp.float32
    name = np.dtype(name).name
  if name not in configs.DTYPES:
    raise UserError(f"dtype {name} is not one of {', '.join(configs.DTYPES)}")
  return dataclasses.replace(config, dtype=name)


def _keeps_quantised(
  checkpoint: Checkpoint, config: Config, mesh: Mesh | None
) -> bool:
  """Returns whether quantised weights can be used as they are stored."""
  if config.dtype != "float32" or mesh is not None:
    return False
  if not checkpoint.is_gguf or not native.used():
    return False
  types = {x.dtype for x in checkpoint.tensors.values() if not x.words}
  if others := ", ".join(sorted(types - parameters.FLOATS)):
    print(
      f"{checkpoint.source}: {others} weights are dequantised", file=sys.stderr
    )
  return True


def _check_copy(copy: StoredTensor, matrix: jax.Array) -> None:
  """Refuses a tied unembedding that differs, judged by 4096 of its rows."""
  V = len(matrix)
  pieces = ((i, min(i + 256, V)) for i in range(0, V, max(256, V // 16)))
  if copy.shape != matrix.shape or not all(
    np.array_equal(copy.rows(i, end).astype(matrix.dtype), matrix[i:end])
    for i, end in pieces
  ):
    raise UserError(
      f"{layout.UNEMBEDDING} is not its embedding, which config.json says"
    )


def save(directory, model: Model) -> None:
  """Writes a model or a draft in Hugging Face's layout.

  A draft is written like published drafts, but without their copies of the
  target's embedding and unembedding.
  """
  params = quantised.dequantised(model.params)
  module, values = model.module, flatten_dict(params)
  tensors = borrowed.offsets(module.config, model.params)
  for path, weight in parameters.stored(module).items():
    tensors |= weight.split(np.asarray(values[path], module.config.dtype))
  config = configs.to_dict(module.config, module.format)
  storage.write(directory, tensors, config)
