"""What a kind of model declares; each file in families/ makes one record."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

if TYPE_CHECKING:
  from tv_jax.models.config import Config
  from tv_jax.models.layout import Leaf


def anything(raw: dict, faults: list[str]) -> None:
  """A `Family.check` that has nothing to say."""
  del raw, faults


@dataclasses.dataclass(frozen=True, kw_only=True, eq=False)
class Family:
  """A kind of model, as config.json's `model_type` names it.

  What all kinds have is not said here: config.py has their common attributes.

  Attributes:
    name: In errors.
    architecture: Hugging Face's class of the language model.
    fixed: Attributes of config.json with the one value that is supported; one
      that is False may be missing.
    required: More attributes that must be there.
    optional: More attributes that may be there, for `check` to read.
    check: (raw, faults): adds a line for each thing that is wrong with these.
    leaves: The parameters, and which tensors of a checkpoint they are.
    module: (config, mesh) to the Flax module, whose `apply` is what
      `decoder.Decoder.__call__` says; the mesh may be missing.
  """

  name: str
  architecture: str
  fixed: Mapping[str, object]
  required: tuple[str, ...] = ()
  optional: tuple[str, ...] = ()
  check: Callable[[dict, list[str]], None] = anything
  leaves: Callable[[Config], list[Leaf]]
  module: Callable
