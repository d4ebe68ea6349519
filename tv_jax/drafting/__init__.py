"""Drafting: what a draft model does, and the trees that it grows."""

from tv_jax.drafting.adaptive import by_confidence, topology
from tv_jax.drafting.drafter import Drafter, News
from tv_jax.drafting.growers import Drafted, Growing, grow, spread
from tv_jax.drafting.in_one_pass import InOnePass
from tv_jax.drafting.kinds import (
  KINDS,
  Independent,
  OnFeatures,
  OnLayers,
  place_of,
)

__all__ = [
  "KINDS",
  "Drafted",
  "Drafter",
  "Growing",
  "InOnePass",
  "Independent",
  "News",
  "OnFeatures",
  "OnLayers",
  "by_confidence",
  "grow",
  "place_of",
  "spread",
  "topology",
]
