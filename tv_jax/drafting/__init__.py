"""Drafting: the kinds of draft models, and how they draft trees."""

from tv_jax.drafting.drafter import Committed, Drafter
from tv_jax.drafting.growers import Drafted, Growing, grow
from tv_jax.drafting.kinds import (
  KINDS,
  DraftKind,
  Independent,
  kind_of,
  load,
  recognise,
  teacher_forced,
)

__all__ = [
  "KINDS",
  "Committed",
  "DraftKind",
  "Drafted",
  "Drafter",
  "Growing",
  "Independent",
  "grow",
  "kind_of",
  "load",
  "recognise",
  "teacher_forced",
]
