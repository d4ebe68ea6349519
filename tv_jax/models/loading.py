"""Loads models and heads from checkpoints, and saves them."""

import dataclasses
import os
import pathlib
from collections.abc import Collection
from typing import Any

import jax
import numpy as np
from jax.sharding import Mesh

from tv_jax.edge import checks, reading
from tv_jax.models import (
  borrowed,
  decoder,
  dspark,
  eagle,
  eagle3,
  gguf,
  heads,
  sharding,
  storage,
)
from tv_jax.models import config as configs
from tv_jax.models import params as params_lib
from tv_jax.models.config import Config
from tv_jax.models.layout import EMBEDDING, UNEMBEDDING, Path, Weight
from tv_jax.models.model import Model


def _as_wanted(config: Config, name) -> Config:
  """Returns the configuration in the wanted dtype, by default as stored."""
  if name is None:
    return config
  try:
    known = np.dtype(name).name
  except TypeError:
    known = str(name)
  if known not in configs.DTYPES:
    raise ValueError(f"dtype {known} is not one of {', '.join(configs.DTYPES)}")
  return dataclasses.replace(config, dtype=known)


def read_config(directory, dtype=None) -> Config:
  """Reads a directory's config.json, without the weights.

  Args:
    directory: Of a model of any family; or a GGUF file.
    dtype: As of `load`.

  Returns:
    The configuration, with the dtype that it would be loaded in.

  Raises:
    ValueError: In one line, all that is wrong with the file.
  """
  path, raw = raw_config(directory)
  config = configs.from_dict(raw, str(path))
  return _as_wanted(config, dtype)


def read_eagle_config(directory) -> tuple[Config, bool]:
  """Reads an EAGLE head's, and whether its fusing product has a bias."""
  path, raw = raw_config(directory, "eagle")
  # Published heads have one unless their config says otherwise.
  bias = checks.read(checks.boolean, raw.pop("bias", True), f"{path}: bias")
  config = configs.from_dict(raw, str(path))
  heads.check_family(config, path, "an EAGLE-1 head")
  return config, bias


def read_eagle3_config(directory, target: Config) -> Config:
  """Reads an EAGLE-3 head's, and takes from its target's what is not there.

  Whether it has an embedding of its own is asked of its weights. Without any
  it is taken to have one.
  """
  path, raw = raw_config(directory, "eagle3")
  names = [eagle3.EMBEDDING]
  if any(path.with_name(x).exists() for x in (storage.SINGLE, storage.INDEX)):
    names = storage.contents(path.parent, directory)
    heads.refuse_others(directory, heads.kind_held(names), "eagle3")
  config = configs.from_dict(raw, str(path), eagle3.FORMAT)
  return eagle3.fitted(config, target, names, path)


def raw_config(directory, kind: str | None = None) -> tuple[pathlib.Path, dict]:
  """Returns a config.json's path and contents; refuses what is of another kind.

  Args:
    directory: Where it is.
    kind: Of the head that is wanted; None: a model of its own is.
  """
  if gguf.is_one(directory):
    path = pathlib.Path(directory)
    return path, gguf.json_object(path, "config.json") or {}
  path = pathlib.Path(directory) / "config.json"
  if not os.path.lexists(path):
    raise ValueError(f"{path} does not exist: is it a checkpoint?")
  raw = reading.json_object(path)
  heads.refuse_others(path, heads.kind_said(raw), kind)
  return path, raw


def source_of(path_or_repo, directory: pathlib.Path) -> str:
  """Returns what was loaded, in words: the hub's cache has commits as names."""
  if pathlib.Path(os.path.expanduser(path_or_repo)) == directory:
    return str(directory)
  return f"{path_or_repo}@{directory.name}"


def load(
  path_or_repo,
  dtype=None,
  mesh: Mesh | None = None,
  revision: str | None = None,
  *,
  target: Model | None = None,
) -> Model:
  """Loads a model of any of `families.FAMILIES`.

  Args:
    path_or_repo: A directory in Hugging Face's layout, a GGUF file, or a
      repository on the hub (from its local cache when it is there, or
      HF_HUB_OFFLINE is set).
    dtype: float32, bfloat16 or float16; by default as stored.
    mesh: The devices to split it over (`sharding.mesh`); None for one device.
    revision: Of a repository: a commit, for runs that can be repeated.
    target: Of a draft: the model whose embedding it may share.

  Returns:
    The model.

  Raises:
    ValueError: In one line, all that is wrong with the checkpoint.
  """
  directory = storage.resolve(path_or_repo, revision)
  config = read_config(directory, dtype)
  if config.shares_embedding:
    if target is None:
      raise ValueError(
        f"{path_or_repo} is a draft that shares its target's embedding: give it"
        " as the draft of that target"
      )
    config = borrowed.fitted(config, target.config, directory / "config.json")
    check_vocabularies(target.config, config)
    mesh = target.mesh
  elif config.draft_vocab_size:
    kind = heads.kind_held(storage.contents(directory, path_or_repo))
    heads.refuse_others(path_or_repo, kind, None)
    raise ValueError(
      f"{directory / 'config.json'}: draft_vocab_size goes with"
      " shares_embedding=true, or with a head"
    )
  module = decoder.Decoder(config, mesh)
  tensors = storage.contents(directory, path_or_repo)
  if kind := heads.kind_held(tensors):
    heads.refuse_others(tensors[heads.FUSING].path, kind, None)
  tied = config.tie_word_embeddings and not config.shares_embedding
  others = [UNEMBEDDING] if tied else []
  params = read_params(path_or_repo, tensors, module, target, others)
  if tied and UNEMBEDDING in tensors:
    copy, table = (tensors[x].read() for x in (UNEMBEDDING, EMBEDDING))
    if not np.array_equal(copy, table):
      raise ValueError(
        f"{directory}: tie_word_embeddings is true, but {UNEMBEDDING} is not "
        f"{EMBEDDING}: remove one or the other"
      )
  return Model(
    module=module, params=params, source=source_of(path_or_repo, directory)
  )


def load_eagle(
  path_or_repo, target: Model, revision: str | None = None
) -> Model:
  """Loads an EAGLE-1 head for `target`, in its dtype, on its devices.

  The embedding that published heads store is a copy of the target's, and is
  not read.

  Args:
    path_or_repo: A directory in the published layout, or a repository.
    target: The model that it drafts for.
    revision: Of a repository: a commit, for runs that can be repeated.

  Returns:
    The head.

  Raises:
    ValueError: In one line, all that is wrong with the checkpoint.
  """
  check_target(target)
  heads.check_family(target.config, target.source, "an EAGLE-1 head's target")
  directory = storage.resolve(path_or_repo, revision)
  where = str(directory / "config.json")
  config, bias = read_eagle_config(directory)
  check_vocabularies(target.config, config)
  if config.num_hidden_layers != 1 or (
    config.hidden_size != target.config.hidden_size
  ):
    raise ValueError(
      f"{where}: an EAGLE-1 head for this target has num_hidden_layers=1 and "
      f"hidden_size={target.config.hidden_size}, not "
      f"{config.num_hidden_layers} and {config.hidden_size}; a model of its own"
      ' drafts with draft_kind="independent"'
    )
  config = borrowed.fitted(config, target.config, where)
  tensors = storage.contents(directory, path_or_repo)
  heads.refuse_others(path_or_repo, heads.kind_held(tensors), "eagle")
  module = eagle.Eagle(config, bias, target.mesh)
  params = read_params(
    path_or_repo, tensors, module, target, [eagle3.EMBEDDING]
  )
  return Model(
    module=module, params=params, source=source_of(path_or_repo, directory)
  )


def load_eagle3(
  path_or_repo, target: Model, revision: str | None = None
) -> Model:
  """Loads an EAGLE-3 head for `target`, in its dtype, on its devices.

  An embedding that it stores is its own, and is used; else the target's is.
  Arguments, result and errors are those of `load_eagle`.
  """
  check_target(target)
  directory = storage.resolve(path_or_repo, revision)
  config = read_eagle3_config(directory, target.config)
  check_vocabularies(target.config, config)
  tensors = storage.contents(directory, path_or_repo)
  if not config.draft_vocab_size:  # there they may be, and say nothing
    tensors = {x: y for x, y in tensors.items() if x not in borrowed.SAY_WHICH}
  module = eagle3.Eagle3(config, target.mesh)
  return Model(
    module=module,
    params=read_params(path_or_repo, tensors, module, target),
    source=source_of(path_or_repo, directory),
  )


def check_target(target) -> None:
  """Refuses what is no model."""
  if not isinstance(target, Model) or not isinstance(
    target.module, decoder.Decoder
  ):
    raise ValueError(f"target={target!r}: give a model, as `load` returns it")


def read_params(
  where, tensors: dict, module: Any, target: Model | None, others=()
) -> dict:
  """Returns a module's parameters, with what it uses of its target.

  Args:
    where: What errors call the checkpoint.
    tensors: What `storage.contents` returned.
    module: What runs them.
    target: The target, of a draft.
    others: Names of tensors that may be there as well.
  """
  sharding.check(module.config, module.mesh)
  known, faults = borrowed.known_tokens(tensors, module.config)
  weights = weights_of(module, tensors)
  storage.check(where, tensors, weights.values(), others, faults)
  _check_memory(where, module, target)
  params = storage.read(tensors, weights, module)
  if module.of_target:
    assert target is not None
    params |= borrowed.params(target, known, params)
  return params


def weights_of(module: Any, names: Collection[str] = ()) -> dict[Path, Weight]:
  """Returns the parameters that a checkpoint of a module holds.

  Args:
    module: What runs them.
    names: Of the checkpoint's tensors, by which published layouts of EAGLE-3
      heads are told apart.
  """
  config, layout = module.config, module.layout
  if isinstance(module, eagle3.Eagle3):
    layout = eagle3.layout_of(config, names)
  return {
    path: Weight.of(layout, path, box.value.shape, config)
    for path, box in params_lib.stored(module).items()
  }


def _check_memory(where, module: Any, target: Model | None) -> None:
  """Refuses weights that do not fit beside those of the target, if any.

  A process that takes more than a machine has is killed without a word.
  """
  if jax.default_backend() != "cpu":
    return
  needed = params_lib.size(module)
  if target is not None:
    needed += sum(x.nbytes for x in jax.tree.leaves(target.params))
  memory = machine_memory()
  if needed > memory:
    raise ValueError(
      f"{where} in {module.config.dtype}{' and its target' if target else ''}"
      f" take {needed / 1e9:.1f} GB, and this machine has {memory / 1e9:.1f}:"
      ' choose dtype="bfloat16" or a smaller model'
    )


def machine_memory() -> int:
  """Returns this machine's memory in bytes."""
  return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")


def check_vocabularies(target: Config, draft: Config) -> None:
  """Refuses a draft whose vocabulary is not as large as the target's."""
  if target.vocab_size != draft.vocab_size:
    raise ValueError(
      f"the draft's vocabulary of {draft.vocab_size} is not the target's of "
      f"{target.vocab_size}: choose a draft that shares its tokenizer"
    )


def save(directory, model: Model) -> None:
  """Writes a model or a head in Hugging Face's own layout.

  A head is written as published ones are, less their copy of the target's
  embedding; so is any other draft that shares it.
  """
  module, raw = model.module, configs.to_dict(model.config)
  if isinstance(module, dspark.DSpark):
    raw |= dspark.to_dict(module.config)
  elif isinstance(module, eagle3.Eagle3):
    raw |= eagle3.to_dict(module.config)
  elif isinstance(module, eagle.Eagle):
    raw["bias"] = module.bias
  known = borrowed.known(module.config, model.params)
  storage.write(directory, model.params, weights_of(module), raw, known)
