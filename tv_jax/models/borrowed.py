"""What a draft takes from its target: the embedding, and the unembedding.

A draft may know few of the target's tokens (`draft_vocab_size`): most of a
small draft's time is its unembedding's. Which they are is in its checkpoint as
in EAGLE-3's: token i of the draft is token i + d2t[i] of the target. What it
does not know has chance 0 in its law, so that verification stays exact.
"""

import dataclasses

import jax
import numpy as np

from tv_jax.models import layout, products, sharding
from tv_jax.models.config import Config
from tv_jax.models.model import Model

OFFSETS = "d2t"
# Parameters that a draft has of its target.
NAMES = ("embedding", "unembedding", "place")


def fitted(config: Config, target: Config, where) -> Config:
  """Returns a draft's configuration with what it takes from its target's."""
  if config.hidden_size != target.hidden_size:
    raise ValueError(
      f"{where}: hidden_size={config.hidden_size} is not the target's"
      f" {target.hidden_size}, whose embedding this draft uses"
    )
  return dataclasses.replace(
    config,
    dtype=target.dtype,
    quantised=target.quantised,
    tie_word_embeddings=target.tie_word_embeddings,
  )


def known_tokens(found: dict, config: Config, where) -> np.ndarray | None:
  """Takes the tokens [U] that a draft knows out of what was found.

  Args:
    found: What `storage.contents` returned.
    config: The draft's.
    where: What errors call the checkpoint.

  Returns:
    The target's numbers of these tokens; None: it knows all.
  """
  U, V = config.draft_vocab_size, config.vocab_size
  if U is None:
    return None
  if OFFSETS not in found:
    raise ValueError(
      f"{where} lacks {OFFSETS}, which says which {U} tokens it knows"
    )
  tokens = found[OFFSETS].read()
  del found[OFFSETS]
  good = tokens.shape == (U,) and tokens.dtype.kind == "i"
  if good:
    tokens = tokens.astype(np.int64) + np.arange(U)
    good = len(np.unique(tokens)) == U
    good = good and tokens.min() >= 0 and tokens.max() < V
  if not good:
    raise ValueError(
      f"{where}: {OFFSETS} does not name {U} different tokens of the target's"
      f" {V}"
    )
  return tokens


def params(target: Model, tokens: np.ndarray | None) -> dict:
  """Returns what a draft that knows these tokens uses of its target."""
  theirs = target.params["params"]
  both = NAMES[:2]
  if tokens is None:
    return {name: theirs[name] for name in both if name in theirs}
  U, V = len(tokens), target.config.vocab_size
  place = np.full(V, U, np.int32)
  place[tokens] = np.arange(U)
  rows = _rows(theirs.get(both[1], theirs[both[0]]), tokens)
  everywhere = sharding.placement("", target.mesh)  # few: they are not split
  return {
    "embedding": theirs["embedding"],
    "unembedding": jax.device_put(rows, everywhere),
    "place": sharding.put(place, everywhere),
  }


def leaves(config: Config) -> list[layout.Leaf]:
  """Returns what `params` copies: the rows of a draft that knows few tokens."""
  if config.draft_vocab_size is None:
    return []
  shape = config.draft_vocab_size, config.hidden_size
  return [layout.whole(("unembedding",), "UE", "", shape)]


def known(config: Config, params: dict) -> dict[str, np.ndarray]:
  """Returns the tensor that says which tokens a draft knows, if not all."""
  if (U := config.draft_vocab_size) is None:
    return {}
  tokens = np.argsort(np.asarray(params["place"]), kind="stable")[:U]
  return {OFFSETS: tokens - np.arange(U)}


def _rows(matrix, tokens):
  """Returns rows of the unembedding, kept as that is kept."""
  if isinstance(matrix, products.Quantised):
    return products.Quantised(matrix.values[tokens], matrix.scale[tokens])
  if isinstance(matrix, products.Turned):
    own = matrix.matrix[:, tokens]
    return products.Turned(own, (len(tokens), own.shape[0]))
  return matrix[tokens]
