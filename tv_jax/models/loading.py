"""Loads models and heads from checkpoints, and saves them."""

import dataclasses
import os
import pathlib

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
  families,
  gguf,
  heads,
  layout,
  memory,
  products,
  sharding,
  storage,
)
from tv_jax.models import config as configs
from tv_jax.models.config import Config
from tv_jax.models.layout import EMBEDDING, UNEMBEDDING
from tv_jax.models.model import Model


def _as_wanted(config: Config, name) -> Config:
  """Returns the configuration in the wanted dtype, by default as stored."""
  if name is None:
    return config
  try:
    known = np.dtype(name).name
  except TypeError:
    known = str(name)
  if known == configs.INT8:
    cpu = jax.default_backend() == "cpu"  # where half precision is slow
    rest = "float32" if cpu else config.dtype
    return dataclasses.replace(config, dtype=rest, quantised=True)
  if known not in configs.DTYPES:
    all_of_them = ", ".join((*configs.DTYPES, configs.INT8))
    raise ValueError(f"dtype {known} is not one of {all_of_them}")
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
  config = families.from_dict(raw, str(path))
  return _as_wanted(config, dtype)


def read_eagle_config(directory) -> tuple[Config, bool]:
  """Reads an EAGLE head's, and whether its fusing product has a bias."""
  path, raw = raw_config(directory, "eagle")
  # Published heads have one unless their config says otherwise.
  bias = checks.read(checks.boolean, raw.pop("bias", True), f"{path}: bias")
  config = families.from_dict(raw, str(path))
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
  config = families.from_dict(raw, str(path), eagle3.FORMAT)
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


def source_of(path_or_repo, directory: pathlib.Path, config: Config) -> str:
  """Returns what was loaded, in words: the hub's cache has commits as names."""
  own = f" in {config.kept}" if config.quantised else ""
  if pathlib.Path(os.path.expanduser(path_or_repo)) == directory:
    return f"{directory}{own}"
  return f"{path_or_repo}@{directory.name}{own}"


def load(
  path_or_repo,
  dtype=None,
  mesh: Mesh | None = None,
  revision: str | None = None,
  *,
  turned: bool = False,
  target: Model | None = None,
) -> Model:
  """Loads a model of any of `families.FAMILIES`.

  Args:
    path_or_repo: A directory in Hugging Face's layout, a GGUF file, or a
      repository on the hub (from its local cache when it is there, or
      HF_HUB_OFFLINE is set).
    dtype: float32, bfloat16 or float16; by default as stored. Or int8: of the
      weights, with a scale a row (`quantised`), and all else as stored, or
      float32 on a CPU.
    mesh: The devices to split it over (`sharding.mesh`); None for one device.
    revision: Of a repository: a commit, for runs that can be repeated.
    turned: Whether products' weights are to lie as a CPU reads them faster
      (`products`). Those of eight bits, and those that are split, do not.
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
  sharding.check(config, mesh)
  leaves = families.leaves(config)
  found = storage.contents(directory, path_or_repo)
  if kind := heads.kind_held(found):
    heads.refuse_others(found[eagle.FUSING].path, kind, None)
  known, faults = borrowed.known_tokens(found, config)
  tied = config.tie_word_embeddings and not config.shares_embedding
  others = [UNEMBEDDING] if tied else []
  storage.check(path_or_repo, found, leaves, others, faults)
  _check_memory(leaves, config, mesh, path_or_repo, target)
  if tied and UNEMBEDDING in found:
    own, other = (found[x].read() for x in (UNEMBEDDING, EMBEDDING))
    if not np.array_equal(own, other):
      raise ValueError(
        f"{directory}: tie_word_embeddings is true, but {UNEMBEDDING} is not "
        f"{EMBEDDING}: remove one or the other"
      )
  own = storage.read(found, leaves, config, mesh, turned=turned)
  if config.shares_embedding:
    assert target is not None
    own |= borrowed.params(target, known)
  return Model(
    module=families.module(config, mesh),
    params=own,
    source=source_of(path_or_repo, directory, config),
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
  found = storage.contents(directory, path_or_repo)
  heads.refuse_others(path_or_repo, heads.kind_held(found), "eagle")
  return Model(
    module=eagle.Eagle(config, bias, target.mesh),
    params=read_head(
      path_or_repo,
      found,
      config,
      eagle.leaves(config, bias=bias),
      target,
      [eagle3.EMBEDDING],
    ),
    source=source_of(path_or_repo, directory, config),
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
  found = storage.contents(directory, path_or_repo)
  if not config.draft_vocab_size:  # there they may be, and say nothing
    found = {x: y for x, y in found.items() if x not in borrowed.SAY_WHICH}
  leaves = eagle3.leaves(config, found)
  return Model(
    module=eagle3.Eagle3(config, target.mesh),
    params=read_head(path_or_repo, found, config, leaves, target),
    source=source_of(path_or_repo, directory, config),
  )


def check_target(target) -> None:
  """Refuses what is no model."""
  if not isinstance(target, Model) or not isinstance(
    target.module, decoder.Decoder
  ):
    raise ValueError(f"target={target!r}: give a model, as `load` returns it")


def read_head(where, found, config, leaves, target, others=()) -> dict:
  """Returns a head's parameters, with what it uses of its target."""
  sharding.check(config, target.mesh)
  known, faults = borrowed.known_tokens(found, config)
  storage.check(where, found, leaves, others, faults)
  _check_memory(leaves, config, target.mesh, where, target)
  turned = products.are_turned(target.params)
  own = storage.read(found, leaves, config, target.mesh, turned=turned)
  return own | borrowed.params(target, known, own)


def _check_memory(
  leaves, config: Config, mesh: Mesh | None, where, target: Model | None
) -> None:
  """Refuses weights that do not fit beside those of the target, if any."""
  weights = layout.size(leaves, config) // (1 if mesh is None else mesh.size)
  what = f"{where} in {config.kept}"
  if target is not None:
    mesh = target.mesh  # of each device, if the draft is not split
  devices = jax.local_devices()[:1] if mesh is None else [*mesh.devices.flat]
  if target is not None:
    held = sum(x.nbytes for x in jax.tree.leaves(target.params))
    weights += held // len(devices)
    what += ", with its target,"
  memory.check({"weights": weights}, devices, what)


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

  Raises:
    ValueError: Its weights have eight bits: the layout knows of none.
  """
  if model.config.quantised:
    raise ValueError(f"{model.source} is not written: load it as it is stored")
  raw, leaves = families.to_dict(model.config), families.leaves(model.config)
  if model.config.block:
    leaves = dspark.leaves(model.config)
    raw |= dspark.to_dict(model.config)
  elif isinstance(model.module, eagle3.Eagle3):
    leaves = eagle3.leaves(model.config)
    raw |= eagle3.to_dict(model.config)
  elif isinstance(model.module, eagle.Eagle):
    bias = model.module.bias
    leaves = eagle.leaves(model.config, bias=bias)
    raw["bias"] = bias
  params = model.params
  storage.write(
    directory, params, leaves, raw, borrowed.known(model.config, params)
  )
