"""The kinds of drafts: how each is recognised, loaded and run."""

from __future__ import annotations

import os
from typing import Any, NamedTuple

from jax.sharding import Mesh

from tv_jax.drafting.drafter import Drafter
from tv_jax.drafting.in_one_pass import InOnePass
from tv_jax.drafting.level_by_level import Independent, OnFeatures
from tv_jax.io.errors import UserError
from tv_jax.io.reading import listed
from tv_jax.models import (
  Checkpoint,
  Model,
  decoder,
  dspark,
  eagle,
  eagle3,
  loading,
)


class DraftKind(NamedTuple):
  """A kind of draft."""

  module: Any  # the Linen modules' class, with the `format` of checkpoints
  drafter: type[Drafter]  # the draft's functions


KINDS = {
  "independent": DraftKind(decoder.Decoder, Independent),
  "eagle": DraftKind(eagle.Eagle, OnFeatures),
  "eagle3": DraftKind(eagle3.Eagle3, OnFeatures),
  "dspark": DraftKind(dspark.DSpark, InOnePass),
}


def kind_of(module) -> str:
  """Returns the name in `KINDS` of a draft's module."""
  return next(x for x, y in KINDS.items() if type(module) is y.module)


def drafter_of(module, stop: float = 0.0) -> Drafter:
  """Returns the functions of a draft's module."""
  return KINDS[kind_of(module)].drafter(module, stop)


def recognise(checkpoint: Checkpoint) -> str:
  """Returns the name in `KINDS` of the draft in a checkpoint.

  Raises:
    ValueError: No kind fits, or several; names the tensors that decided.
  """
  names = checkpoint.tensors
  formats = {name: kind.module.format for name, kind in KINDS.items()}
  found = [name for name, form in formats.items() if form.fits(names)]
  if {"eagle3", "dspark"} & {*found}:  # they have EAGLE-1's tensor, too
    found = [name for name in found if name != "eagle"]
  if len(found) == 1:
    return found[0]
  signs = ", ".join(
    f"{formats[name].signature} ({formats[name].title})"
    for name in found or formats
  )
  if found:
    raise UserError(
      f"{checkpoint.source} could be several kinds of model, because it has"
      f" tensors like {signs}"
    )
  raise UserError(
    f"{checkpoint.source} is neither a language model nor a draft: it has no"
    f" tensor like {signs}, but {listed(sorted(names)) or 'none at all'}"
  )


def load(
  place: str | os.PathLike | Checkpoint,
  target: Model,
  dtype=None,
  mesh: Mesh | None = None,
  *,
  weights: str = loading.STORED,
) -> Model:
  """Loads a draft of any kind; see `models.load`."""
  checkpoint = Checkpoint.open(place)
  kind = KINDS[recognise(checkpoint)].module
  return loading.load(
    checkpoint, dtype, mesh, weights=weights, kind=kind, target=target
  )
