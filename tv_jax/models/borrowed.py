"""What a draft takes from its target: shapes, embedding and unembedding.

Some drafts store one or both matrices themselves. A draft may know only some of
the target's tokens (`draft_vocab_size`), because a small draft spends most of
its time in the unembedding. Its checkpoint lists them as EAGLE-3's do: token i
of the draft is token i + d2t[i] of the target. All other tokens have
probability 0 in the draft, so verification stays exact.
"""

import dataclasses
from collections.abc import Collection, Mapping

import jax
import numpy as np

from tv_jax.io.errors import UserError
from tv_jax.models import products, sharding
from tv_jax.models.config import Config
from tv_jax.models.decoder import INPUT, OF_TARGET
from tv_jax.models.layout import Format
from tv_jax.models.model import Model
from tv_jax.models.storage import StoredTensor

OFFSETS = "d2t"


def check_vocabularies(target: Config, draft: Config) -> None:
  """Raises ValueError if the draft and target vocabularies differ in size."""
  if target.vocab_size != draft.vocab_size:
    raise UserError(
      f"the draft's vocabulary of {draft.vocab_size} is not the target's of "
      f"{target.vocab_size}: choose a draft that shares its tokenizer"
    )


def completed(
  config: Config, target: Model | None, form: Format, names: Collection[str]
) -> Config:
  """Completes the configuration of a draft that uses the target's embedding.

  Args:
    config: As config.json has it.
    target: The target.
    form: The kind of draft.
    names: Names of the checkpoint's tensors.
  """
  if target is None:
    raise UserError(
      "it shares its target's embedding, so it is a draft: the target comes"
      " first, load(target, draft)"
    )
  theirs = target.config
  check_vocabularies(theirs, config)
  if config.hidden_size != theirs.hidden_size:
    raise UserError(
      f"hidden_size={config.hidden_size} is not the target's"
      f" {theirs.hidden_size}, whose embedding this draft uses"
    )
  config = dataclasses.replace(
    config, dtype=theirs.dtype, tie_word_embeddings=theirs.tie_word_embeddings
  )
  config = form.complete(config, theirs, names)
  # Published drafts were not trained on the output of the last layer.
  layers, last = config.target_layer_ids, theirs.num_hidden_layers - 2
  if layers and not INPUT <= min(layers) <= max(layers) <= last:
    raise UserError(
      f"target_layer_ids={[*layers]}: give layers of the target, from"
      f" {INPUT} (the embedding) to {last}"
    )
  return config


def known_tokens(
  tensors: Mapping[str, StoredTensor], config: Config
) -> np.ndarray | None:
  """Returns the target's ids [U] of a draft's tokens; None if it knows all."""
  if (U := config.draft_vocab_size) is None:
    return None
  if OFFSETS not in tensors:
    raise UserError(f"missing: {OFFSETS}")
  tokens = tensors[OFFSETS].rows(0, U) + np.arange(U)
  if len({*tokens}) != U or not {*tokens} <= {*range(config.vocab_size)}:
    raise UserError(
      f"{OFFSETS} does not name {U} different tokens of the target's"
      f" {config.vocab_size}"
    )
  return tokens


def params(
  target: Model,
  tokens: np.ndarray | None,
  names: Collection[str] = OF_TARGET,
) -> dict:
  """Returns the parameters that a draft takes from its target.

  Args:
    target: The target.
    tokens: The tokens that the draft knows, as `known_tokens` returns them.
    names: Those among `OF_TARGET` that the draft does not store itself.
  """
  theirs = target.params
  taken = {name: x for name, x in theirs.items() if name in names}
  if tokens is None:
    return taken
  U, V = len(tokens), target.config.vocab_size
  place = np.full(V, U, np.int32)
  place[tokens] = np.arange(U)
  everywhere = sharding.placement((), target.mesh)  # small, so not split
  if "unembedding" in names:
    matrix = theirs.get("unembedding", theirs["embedding"])
    matrix = products.take(matrix, tokens)
    taken["unembedding"] = jax.device_put(matrix, everywhere)
  return taken | {"place": jax.device_put(place, everywhere)}


def offsets(config: Config, params: dict) -> dict[str, np.ndarray]:
  """Returns the tensor that lists the tokens a draft knows, if not all."""
  if (U := config.draft_vocab_size) is None:
    return {}
  tokens = np.argsort(np.asarray(params["place"]), kind="stable")[:U]
  return {OFFSETS: tokens - np.arange(U)}
