"""Drafting: the kinds of draft models, and how they draft trees."""

from tv_jax.drafting.drafter import Committed, Drafter
from tv_jax.drafting.growers import Drafted, grow
from tv_jax.drafting.kinds import (
  KINDS,
  DraftKind,
  drafter_of,
  kind_of,
  load,
  recognise,
)
from tv_jax.drafting.level_by_level import Independent

__all__ = [
  "KINDS",
  "Committed",
  "DraftKind",
  "Drafted",
  "Drafter",
  "Independent",
  "drafter_of",
  "grow",
  "kind_of",
  "load",
  "recognise",
]
