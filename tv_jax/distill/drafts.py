"""Drafts to be trained: made from their target, and written as checkpoints."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from tv_jax import models
from tv_jax.distill import passes
from tv_jax.engine.pair import Pair
from tv_jax.models import (
  Config,
  Head,
  Model,
  borrowed,
  eagle,
  families,
  products,
)
from tv_jax.models.heads import check_family

# The kinds of drafts that are made.
KINDS = ("independent", "eagle")
# What drafts are written in.
DTYPE = "float16"


class Made(NamedTuple):
  """A draft in training."""

  draft: passes.Draft
  trained: dict  # its own parameters
  borrowed: dict  # those of its target, which stay as they are

  @property
  def params(self) -> dict:
    """Returns both, as `apply` takes them."""
    return {"params": self.trained | self.borrowed}


def choose(kind: str, pair: Pair, layers: Sequence[int]) -> Sequence[int]:
  """Returns the target's layers that a draft begins with.

  Args:
    kind: "independent" or "eagle".
    pair: The target. If there is a draft, training begins with that, and with
      no layers of the target's.
    layers: Those that are asked for; none: the first and the last, of a head
      the last.

  Raises:
    ValueError: No such draft can be made for this target.
  """
  target = pair.target
  config, last = target.config, target.config.num_hidden_layers - 1
  if config.quantised:
    raise ValueError(
      f"{target.source}: no draft is made from eight bits; load it as it is"
      " stored"
    )
  if kind == "eagle":
    check_family(config, target.source, "an EAGLE-1 head's target")
    if len(layers) > 1:
      raise ValueError(f"layers={[*layers]}: give one, a head has no more")
  if pair.draft is not None:
    _check_begun(kind, pair.draft, pair.draft_kind, layers)
    return ()
  if max(layers, default=0) > last:
    raise ValueError(f"layers={[*layers]}: the target has only 0 to {last}")
  return layers or ((last,) if kind == "eagle" else (0, last))


def _check_begun(kind, draft: models.Draft, own: str, layers) -> None:
  if kind != own:
    raise ValueError(
      f"{draft.source} is of kind {own!r}: kind={kind!r} cannot begin with it"
    )
  if layers:
    raise ValueError(
      f"layers={[*layers]}: a draft that begins as {draft.source} takes none"
    )
  if kind == "independent" and not draft.config.shares_embedding:
    raise ValueError(
      f"{draft.source} has an embedding of its own: begin with a draft that"
      " tv_jax.distill made"
    )


def begun(draft: models.Draft) -> Made:
  """Makes a draft that begins as one that is there."""
  config = dataclasses.replace(draft.config, dtype="float32")
  trained, taken = {}, {}
  for name, value in draft.params["params"].items():
    own = taken if name in borrowed.NAMES else trained
    own[name] = _wide(value)
  if isinstance(draft, Head):
    kind, apply = "eagle", eagle.Eagle(config, draft.bias).apply
  else:
    kind, apply = "independent", families.apply(config)
  return Made(passes.Draft(kind, apply, config), trained, taken)


def make(
  kind: str,
  target: Model,
  key: jax.Array,
  layers: Sequence[int],
  known: np.ndarray | None,
) -> Made:
  """Makes a draft that begins as a part of its target.

  Args:
    kind: "independent" or "eagle".
    target: Its target.
    key: For what is random.
    layers: As `choose` returns them.
    known: The tokens that it knows; None: all.
  """
  theirs = target.params["params"]
  config = dataclasses.replace(
    target.config,
    num_hidden_layers=len(layers),
    dtype="float32",
    draft_vocab_size=None if known is None else len(known),
    shares_embedding=kind == "independent",
  )
  own = [_wide(theirs[f"layers_{i}"]) for i in layers]
  taken = _wide(borrowed.params(target, known))
  if kind == "independent":
    trained = {f"layers_{i}": layer for i, layer in enumerate(own)}
    trained["norm"] = _wide(theirs["norm"])
    apply = families.apply(config)
  else:
    (layer,) = own
    trained = _head(key, config, layer)
    apply = eagle.Eagle(config, True).apply
  return Made(passes.Draft(kind, apply, config), trained, taken)


def _head(key, config: Config, layer: dict) -> dict:
  """Makes a head's parameters: it begins by passing the feature on.

  Its layer is the target's, less the norm of the attention's input, whose
  scale goes into the product behind it; what it adds to the feature is 0 yet.
  """
  E = config.hidden_size
  scale = layer["attention_norm"]
  rest = {name: x for name, x in layer.items() if name != "attention_norm"}
  rest["qkv"] = layer["qkv"] * scale[None, None, None]
  for name in ("out", "down"):
    rest[name] = jnp.zeros_like(layer[name])
  noise = 0.02 * jax.random.normal(key, (E, 2 * E))
  fc = noise.at[:, E:].add(jnp.eye(E))
  return {"fc": fc, "fc_bias": jnp.zeros(E), "layer": rest}


def save(directory, made: Made) -> None:
  """Writes a draft as a checkpoint; `load` takes it as its target's draft."""
  config = dataclasses.replace(made.draft.config, dtype=DTYPE)
  own = jax.tree.map(lambda x: np.asarray(x, DTYPE), made.trained)
  place = {k: v for k, v in made.borrowed.items() if k == "place"}
  fields = {
    "config": config,
    "params": {"params": own | place},
    "apply": made.draft.apply,
    "mesh": None,
    "source": str(directory),
  }
  if made.draft.kind == "eagle":
    models.save(directory, Head(**fields, bias="fc_bias" in own))
  else:
    models.save(directory, Model(**fields))


def _wide(params):
  """Returns weights in float32, as checkpoints have them; numbers stay."""

  def wide(x):
    x = products.unboxed(x)
    # A copy: training gives its buffers away.
    return x if x.dtype == jnp.int32 else jnp.array(x, jnp.float32)

  return jax.tree.map(wide, params, is_leaf=products.is_turned)
