"""Drafts to be trained: made from their target, and written as checkpoints."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Collection, Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from tv_jax import models
from tv_jax.edge import checks
from tv_jax.models import (
  Config,
  Model,
  borrowed,
  decoder,
  dspark,
  eagle,
  eagle3,
)
from tv_jax.models.config import Block


class Kind(NamedTuple):
  """A kind of drafts that are made."""

  module: Callable[[Config], Any]
  # Which of the target's layers it begins with: 0 is the first, -1 the last.
  layers: tuple[int, ...]
  # How many outputs of the target's layers it reads, as published ones do.
  reads: int = 0
  families: Collection[str] = ()  # of targets; none: any


KINDS = {
  "independent": Kind(decoder.Decoder, (0, -1)),
  "eagle": Kind(
    lambda config: eagle.Eagle(config, True), (-1,), 0, eagle.FAMILIES
  ),
  "eagle3": Kind(eagle3.Eagle3, (-1,), 3, eagle3.LAYOUTS),
  "dspark": Kind(dspark.DSpark, (-2, -1), 5),
}


class Trainee(NamedTuple):
  """A draft in training."""

  module: Any
  trained: dict  # parameters
  borrowed: dict  # those that are not trained; but for EAGLE-3 the target's

  @property
  def params(self) -> dict:
    """Returns all of its parameters."""
    return self.trained | self.borrowed


def check(draft_kind: str, target: Model, layers: Sequence[int]) -> None:
  """Refuses a draft that cannot be made.

  Args:
    draft_kind: One of `KINDS`.
    target: Its target.
    layers: Those of the target that it begins with.
  """
  checks.one_of(KINDS)(draft_kind, "draft_kind")
  if families := KINDS[draft_kind].families:
    what = f"{target.source}: the target of draft_kind={draft_kind!r}"
    borrowed.check_family(target.config, families, what)
  last = target.config.num_hidden_layers - 1
  most = 1 if draft_kind.startswith("eagle") else last + 1
  if len(layers) > most or max(layers, default=0) > last:
    raise ValueError(f"layers={[*layers]}: give {most} at most, of 0 to {last}")


def read_by(draft_kind: str, target: Config) -> tuple[int, ...]:
  """Returns the target's layers whose outputs a draft that is made reads.

  They are spread evenly, as those of published drafts are, from the second on;
  the highest is what the target's last layer reads, so that a draft which
  begins with that layer can begin with what it is used to.
  """
  count, last = KINDS[draft_kind].reads, target.num_hidden_layers - 2
  places = np.linspace(min(1, last), last, count).round()
  layers = sorted({int(x) for x in places})
  if draft_kind == "eagle3" and len(layers) < 2:  # it has two at least
    layers = [decoder.INPUT, *layers]
  return tuple(layers)


def make(
  draft_kind: str,
  target: Model,
  key: jax.Array,
  layers: Sequence[int],
  known: np.ndarray | None,
  depth: int = 4,
  rank: int = 0,
) -> Trainee:
  """Makes a draft that begins as a part of its target.

  Args:
    draft_kind: One of `KINDS`.
    target: Its target.
    key: For what is random.
    layers: Of the target, which it begins with; none: those of `KINDS`.
    known: The tokens that it knows; None: all.
    depth: Of a draft of one pass, the levels that it can draft.
    rank: Of the Markov head of such a draft; 0: it has none.
  """
  theirs, count = target.params, target.config.num_hidden_layers
  if not layers:
    layers = sorted({i % count for i in KINDS[draft_kind].layers})
  config = dataclasses.replace(
    target.config,
    num_hidden_layers=len(layers),
    dtype="float32",
    draft_vocab_size=None if known is None else len(known),
    shares_embedding=draft_kind in ("independent", "eagle3"),
    target_layers=read_by(draft_kind, target.config),
  )
  copies = [_wide(theirs[f"layers_{i}"]) for i in layers]
  norm = _wide(theirs["norm"])
  taken = _wide(borrowed.params(target, known))
  if draft_kind == "independent":
    trained = {f"layers_{i}": layer for i, layer in enumerate(copies)}
    trained["norm"] = norm
  elif draft_kind == "eagle":
    trained = _head(key, config, copies[0])
  elif draft_kind == "eagle3":
    config = dataclasses.replace(config, tie_word_embeddings=False)
    taken = {"unembedding": taken["embedding"]} | taken
    trained = _head3(key, config, copies[0]) | {"norm": norm}
  else:
    ends = (*config.eos_token_id, config.vocab_size - 1)
    block = Block(
      size=depth,
      mask=ends[0],  # nothing is drafted behind an end
      rank=rank,
      head="vanilla" if rank else None,
      confidence=rank > 0,
      sees_token=rank > 0,
    )
    config = dataclasses.replace(config, model_type="qwen3", block=block)
    trained = _in_one_pass(key, config, copies, taken["embedding"])
    trained["norm"] = norm
  return Trainee(KINDS[draft_kind].module(config), trained, taken)


def _head(key, config: Config, layer: dict) -> dict:
  """Makes a head's parameters: it begins by passing the feature on.

  Its layer is the target's; what it adds to the feature is 0 yet.
  """
  E = config.hidden_size
  rest = _normed(layer)
  del rest["attention_norm"]
  for name in ("out", "down"):
    rest[name] = jax.tree.map(jnp.zeros_like, layer[name])
  noise = 0.02 * jax.random.normal(key, (E, 2 * E))
  fc = {"kernel": noise.at[:, E:].add(jnp.eye(E)), "bias": jnp.zeros(E)}
  return {"fc": fc, "layer": rest}


def _head3(key, config: Config, layer: dict) -> dict:
  """Makes an EAGLE-3 head's: the layer does not see the token yet."""
  rest = _normed(layer)
  del rest["attention_norm"]
  kernel = rest["qkv"]["kernel"]
  both = jnp.concatenate([jnp.zeros_like(kernel), kernel], axis=1)
  ones = {"scale": jnp.ones(config.hidden_size)}
  return {
    "fc": _passing(key, config),
    "token_norm": ones,
    "feature_norm": jax.tree.map(jnp.array, ones),
    "layer": rest | {"qkv": rest["qkv"] | {"kernel": both}},
  }


def _in_one_pass(key, config: Config, layers: list, embedding) -> dict:
  """Makes a DSpark draft's: its Markov head says nothing yet.

  What the head reads of a token is its embedding, turned at random to few
  numbers: so tokens that the text seldom has begin beside their like.
  """
  E, block = config.hidden_size, dspark.block_of(config)
  keys = jax.random.split(key, 2)
  trained: dict = {
    "fc": _passing(keys[0], config),
    "beside_norm": {"scale": jnp.ones(E)},
  }
  for i, layer in enumerate(layers):
    trained[f"layers_{i}"] = _heads_normed(_normed(layer), config)
  M = block.rank
  if M:
    before = embedding @ jax.random.normal(keys[1], (E, M))
    before *= 0.5 / jnp.sqrt(jnp.mean(before**2))
    U = config.draft_vocab_size or config.vocab_size
    trained["markov"] = {"before": before, "next": jnp.zeros((U, M))}
  if block.confidence:
    sure = {"kernel": jnp.zeros((1, E + M)), "bias": jnp.zeros(1)}
    trained["markov"] |= {"sure": sure}
  return trained


def _passing(key, config: Config) -> dict:
  """Makes a fusing product: the last of what it reads, and a tenth of noise."""
  E = config.hidden_size
  J = E * len(config.target_layers)
  noise = 0.1 * J**-0.5 * jax.random.normal(key, (E, J))
  return {"kernel": noise.at[:, J - E :].add(jnp.eye(E))}


def _normed(layer: dict) -> dict:
  """Returns a layer whose attention's norm has its scale in the next product.

  A draft's layer reads something else than the target's, normed without a
  scale.
  """
  scale = layer["attention_norm"]["scale"]
  kernel = layer["qkv"]["kernel"] * scale[None]
  return layer | {
    "qkv": layer["qkv"] | {"kernel": kernel},
    "attention_norm": {"scale": jnp.ones_like(scale)},
  }


def _heads_normed(layer: dict, config: Config) -> dict:
  """Returns a layer of Qwen3's with about the attention of a Llama's.

  Norms of queries and keys begin as large as these are, of normed input whose
  channels have nothing to do with each other.
  """
  kernel = layer["qkv"]["kernel"]
  layer = layer | {"qkv": {"kernel": kernel}}  # Qwen3's has no bias
  if "head_norms" in layer:
    return layer
  G, C = config.num_key_value_heads, config.head_dim
  squares = jnp.sum(kernel**2, axis=1).reshape(G, -1, C)

  def norm(squares):
    return jnp.full(C, jnp.sqrt(jnp.mean(squares)))

  norms = {"query": norm(squares[:, :-2]), "key": norm(squares[:, -2])}
  return layer | {"head_norms": norms}


def save(directory, draft: Trainee) -> None:
  """Writes a draft as a checkpoint; `load` takes it as its target's draft."""
  module = draft.module
  kept = {"place"}
  if isinstance(module, eagle3.Eagle3):  # whose unembedding is its own
    kept |= {*decoder.OF_TARGET}
  taken = {name: x for name, x in draft.borrowed.items() if name in kept}
  params = jax.tree.map(
    lambda x: np.asarray(x, None if x.dtype == jnp.int32 else "float16"),
    draft.trained | taken,
  )
  module = module.clone(
    config=dataclasses.replace(module.config, dtype="float16")
  )
  models.save(
    directory, Model(module=module, params=params, source=str(directory))
  )


def _wide(params):
  """Returns weights in float32; whole numbers stay."""

  def wide(x):
    # A copy: training gives its buffers away.
    return x if x.dtype == jnp.int32 else jnp.array(x, jnp.float32)

  return jax.tree.map(wide, params)
