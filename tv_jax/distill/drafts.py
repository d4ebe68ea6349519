"""Drafts for training: initialised from their target, saved as checkpoints."""

from __future__ import annotations

import dataclasses
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from tv_jax import models
from tv_jax.drafting import KINDS
from tv_jax.io import checks
from tv_jax.io.errors import UserError
from tv_jax.models import (
  Config,
  Model,
  borrowed,
  decoder,
  quantised,
)

# Rank of the Markov head of a one-pass draft.
RANK = 64


class Recipe(NamedTuple):
  """How a kind of draft is initialised."""

  # The target's layers that initialise it: 0 is the first, -1 the last.
  layers: tuple[int, ...]
  # Number of the target's layers whose outputs it reads, as published.
  reads: int = 0


RECIPES = {
  "independent": Recipe((0, -1)),
  "eagle": Recipe((-1,)),
  "eagle3": Recipe((-1,), 3),
  "dspark": Recipe((-2, -1), 5),
}


class Trainee(NamedTuple):
  """A draft in training."""

  module: Any
  trained: dict  # parameters that are trained
  borrowed: dict  # parameters that are not, taken from the target

  @property
  def params(self) -> dict:
    """Returns all parameters."""
    return self.trained | self.borrowed


def check(kind: str, target: Model) -> None:
  """Raises ValueError for a kind of `RECIPES` that the target cannot have."""
  checks.one_of(RECIPES)(kind, "kind")
  known = KINDS[kind].module.format.layouts
  family = target.config.model_type
  # The layer of a head is one of the target's.
  if kind.startswith("eagle") and family not in known:
    raise UserError(
      f"kind={kind!r} is for targets of model_type"
      f" {' or '.join(map(repr, known))}, and {target.source} has {family!r}:"
      " make an independent draft or a DSpark draft instead"
    )


def read_by(kind: str, target: Config) -> tuple[int, ...]:
  """Returns the target's layers whose outputs a draft reads.

  They are evenly spaced from the second layer on, as in published drafts. The
  highest is the input of the target's last layer, so that a draft initialised
  with that layer starts from the input that the layer expects.
  """
  count, last = RECIPES[kind].reads, target.num_hidden_layers - 2
  places = np.linspace(min(1, last), last, count).round()
  layers = sorted({int(x) for x in places})
  if kind == "eagle3" and len(layers) < 2:  # it reads at least two
    layers = [decoder.INPUT, *layers]
  return tuple(layers)


def make(
  kind: str,
  target: Model,
  key: jax.Array,
  known: np.ndarray | None,
  depth: int = 4,
) -> Trainee:
  """Makes a draft that is initialised with layers of its target.

  Args:
    kind: One of `RECIPES`.
    target: Its target.
    key: Random key of the other parameters.
    known: Tokens that the draft knows; None: all.
    depth: Block size of a one-pass draft.
  """
  theirs, count = target.params, target.config.num_hidden_layers
  layers = sorted({i % count for i in RECIPES[kind].layers})
  config = dataclasses.replace(
    target.config,
    num_hidden_layers=len(layers),
    dtype="float32",
    draft_vocab_size=None if known is None else len(known),
    shares_embedding=kind in ("independent", "eagle3"),
    target_layer_ids=read_by(kind, target.config),
  )
  copies = [_wide(theirs[f"layers_{i}"]) for i in layers]
  norm = _wide(theirs["norm"])
  taken = _wide(borrowed.params(target, known))
  if kind == "independent":
    trained = {f"layers_{i}": layer for i, layer in enumerate(copies)}
    trained["norm"] = norm
  elif kind == "eagle":
    trained = _head(key, config, copies[0])
  elif kind == "eagle3":
    config = dataclasses.replace(config, tie_word_embeddings=False)
    taken = {"unembedding": taken["embedding"]} | taken
    trained = _head3(key, config, copies[0]) | {"norm": norm}
  else:
    # Without an end token, the last token.
    ends = (*config.eos_token_id, config.vocab_size - 1)
    config = dataclasses.replace(
      config,
      model_type="qwen3",
      block_size=depth,
      mask_token_id=ends[0],  # nothing is drafted after an end token
      markov_rank=RANK,
      enable_confidence_head=True,
    )
    trained = _in_one_pass(key, config, copies, taken["embedding"])
    trained["norm"] = norm
  return Trainee(KINDS[kind].module(config), trained, taken)


def _head(key, config: Config, layer: dict) -> dict:
  """Makes the parameters of an EAGLE-1 head that at first copies its feature.

  Its layer is the target's, with output projections of 0.
  """
  E = config.hidden_size
  rest = _without_norm(layer)
  for name in ("out", "down"):
    rest[name] = jax.tree.map(jnp.zeros_like, layer[name])
  noise = 0.02 * jax.random.normal(key, (E, 2 * E))
  fc = {"kernel": noise.at[:, E:].add(jnp.eye(E)), "bias": jnp.zeros(E)}
  return {"fc": fc, "layer": rest}


def _head3(key, config: Config, layer: dict) -> dict:
  """Makes the parameters of an EAGLE-3 head that at first ignores the token."""
  rest = _without_norm(layer)
  kernel = rest["qkv"]["kernel"]
  both = jnp.concatenate([jnp.zeros_like(kernel), kernel], axis=1)
  ones = {"scale": jnp.ones(config.hidden_size)}
  return {
    "fc": _identity_projection(key, config),
    "token_norm": ones,
    "feature_norm": jax.tree.map(jnp.array, ones),
    "layer": rest | {"qkv": rest["qkv"] | {"kernel": both}},
  }


def _in_one_pass(key, config: Config, layers: list, embedding) -> dict:
  """Makes the parameters of a DSpark draft; at first its Markov head outputs 0.

  The head reads a random projection of the token's embedding, so that a token
  that is rare in the text is treated like tokens with similar embeddings.
  """
  E = config.hidden_size
  keys = jax.random.split(key, 2)
  trained: dict = {
    "fc": _identity_projection(keys[0], config),
    "context_norm": {"scale": jnp.ones(E)},
  }
  for i, layer in enumerate(layers):
    trained[f"layers_{i}"] = _heads_normed(_without_norm(layer), config) | {
      "attention_norm": {"scale": jnp.ones(E)}
    }
  U, M = config.draft_vocab_size or config.vocab_size, config.markov_rank
  before = embedding @ jax.random.normal(keys[1], (E, M))
  before *= 0.5 / jnp.sqrt(jnp.mean(before**2))
  trained["markov"] = {
    "before": before,
    "next": jnp.zeros((U, M)),
    "sure": {"kernel": jnp.zeros((1, E + M)), "bias": jnp.zeros(1)},
  }
  return trained


def _identity_projection(key, config: Config) -> dict:
  """Makes a projection to the highest layer's output plus a little noise."""
  E = config.hidden_size
  J = E * len(config.target_layer_ids)
  noise = 0.1 * J**-0.5 * jax.random.normal(key, (E, J))
  return {"kernel": noise.at[:, J - E :].add(jnp.eye(E))}


def _without_norm(layer: dict) -> dict:
  """Moves the scale of a layer's attention norm to the kernel after it."""
  layer = dict(layer)
  scale = layer.pop("attention_norm")["scale"]
  kernel = layer["qkv"]["kernel"] * scale[None]
  return layer | {"qkv": layer["qkv"] | {"kernel": kernel}}


def _heads_normed(layer: dict, config: Config) -> dict:
  """Adds Qwen3's norms of queries and keys to a Llama layer.

  The norms' scales are the root mean squares that queries and keys have for
  normed inputs with independent channels.
  """
  kernel = layer["qkv"]["kernel"]
  layer = layer | {"qkv": {"kernel": kernel}}  # Qwen3 has no bias
  if "head_norms" in layer:
    return layer
  G, C = config.num_key_value_heads, config.head_dim
  squares = jnp.sum(kernel**2, axis=1).reshape(G, -1, C)

  def norm(squares):
    return jnp.full(C, jnp.sqrt(jnp.mean(squares)))

  norms = {"query": norm(squares[:, :-2]), "key": norm(squares[:, -2])}
  return layer | {"head_norms": norms}


def save(directory, draft: Trainee) -> None:
  """Saves a draft as a checkpoint in float16, for `tv_jax.load`."""
  config = dataclasses.replace(draft.module.config, dtype="float16")
  module = draft.module.clone(config=config)
  models.save(
    directory, Model(module=module, params=draft.params, source=str(directory))
  )


def _wide(params):
  """Copies parameters to float32; integers keep their type."""

  def wide(x):
    # A copy, because training donates its buffers.
    return x if x.dtype == jnp.int32 else jnp.array(x, jnp.float32)

  return jax.tree.map(wide, quantised.dequantised(params))
