"""What a draft takes from its target: the embedding, and the unembedding.

Some drafts have one or both of their own. A draft may know few of the target's
tokens (`draft_vocab_size`): most of a small draft's time is its unembedding's.
Which they are is in its checkpoint as in EAGLE-3's: token i of the draft is
token i + d2t[i] of the target. What it does not know has chance 0 in its law,
so that verification stays exact.
"""

import dataclasses
from collections.abc import Collection, Sequence

import jax
import numpy as np

from tv_jax.models import sharding
from tv_jax.models.config import Config
from tv_jax.models.decoder import INPUT, OF_TARGET
from tv_jax.models.layout import StoredTensor
from tv_jax.models.model import Model

OFFSETS, FLAGS = "d2t", "t2d"


def check_vocabularies(target: Config, draft: Config) -> None:
  """Refuses a draft whose vocabulary is not as large as the target's."""
  if target.vocab_size != draft.vocab_size:
    raise ValueError(
      f"the draft's vocabulary of {draft.vocab_size} is not the target's of "
      f"{target.vocab_size}: choose a draft that shares its tokenizer"
    )


def check_family(config: Config, known: Collection[str], what: str) -> None:
  """Refuses families of which no such drafts are known."""
  if config.model_type not in known:
    raise ValueError(
      f"{what} of model_type={config.model_type!r} is not supported, only"
      f" {', '.join(map(repr, known))}: draft with an independent model instead"
    )


def fitted(config: Config, target: Config, where) -> Config:
  """Returns a draft's configuration with what it takes from its target's."""
  check_vocabularies(target, config)
  if config.hidden_size != target.hidden_size:
    raise ValueError(
      f"{where}: hidden_size={config.hidden_size} is not the target's"
      f" {target.hidden_size}, whose embedding this draft uses"
    )
  return dataclasses.replace(
    config,
    dtype=target.dtype,
    tie_word_embeddings=target.tie_word_embeddings,
  )


def wrong_layers(
  layers: Sequence[int], target: Config, *, least: int
) -> str | None:
  """Says what is wrong with the layers of its target that a draft reads."""
  # What comes out of the last one is not what published drafts learnt from.
  last = target.num_hidden_layers - 2
  ordered = [*layers] == sorted({*layers}) and len(layers) >= least
  if ordered and layers[-1] <= last:
    return None
  return (
    f"target_layer_ids={[*layers]}: give {least} or more layers of the target,"
    f" in order, of {INPUT} (the embedding) to {last}"
  )


def known_tokens(
  tensors: dict[str, StoredTensor], config: Config
) -> tuple[np.ndarray | None, list[str]]:
  """Takes the tokens [U] that a draft knows out of a checkpoint's tensors.

  Returns:
    The target's numbers of these tokens, None if it knows all; and what is
    wrong.
  """
  offsets, flags = tensors.pop(OFFSETS, None), tensors.pop(FLAGS, None)
  U, V = config.draft_vocab_size, config.vocab_size
  if U is None:  # then published heads have a 0 for each token, unread
    zeros = offsets is None or (
      offsets.shape == (V,) and not offsets.read().any()
    )
    return None, [] if zeros else [f"unknown: {OFFSETS}"]
  if offsets is None:
    return None, [f"missing: {OFFSETS}, which says which {U} tokens it knows"]
  fits = offsets.shape == (U,)
  tokens = offsets.read() + np.arange(U) if fits else np.array([])
  if len({*tokens}) < U or not {*tokens} <= {*range(V)}:
    wrong = f"{OFFSETS} does not name {U} different tokens of the target's {V}"
    return None, [wrong]
  if flags is not None and {*np.flatnonzero(flags.read())} != {*tokens}:
    return None, [f"{FLAGS} names other tokens than {OFFSETS}"]
  return tokens, []


def params(
  target: Model, tokens: np.ndarray | None, without: Collection[str] = ()
) -> dict:
  """Returns what a draft that knows these tokens uses of its target.

  Args:
    target: The target.
    tokens: As `known_tokens` returns them.
    without: Of `OF_TARGET`, those that the draft has itself.
  """
  theirs = target.params
  taken = {
    x: y for x, y in theirs.items() if x in OF_TARGET and x not in without
  }
  if tokens is None:
    return taken
  U, V = len(tokens), target.config.vocab_size
  place = np.full(V, U, np.int32)
  place[tokens] = np.arange(U)
  everywhere = sharding.placement((), target.mesh)  # few: they are not split
  if "unembedding" not in without:
    matrix = theirs.get("unembedding", theirs["embedding"])
    taken["unembedding"] = jax.device_put(matrix[tokens], everywhere)
  return taken | {"place": jax.device_put(place, everywhere)}


def offsets(config: Config, params: dict) -> dict[str, np.ndarray]:
  """Returns the tensor that says which tokens a draft knows, if not all."""
  if (U := config.draft_vocab_size) is None:
    return {}
  tokens = np.argsort(np.asarray(params["place"]), kind="stable")[:U]
  return {OFFSETS: tokens - np.arange(U)}
