"""Drafting: the kinds of draft models, and how they draft trees."""

from tv_jax.drafting.adaptive import by_confidence, topology
from tv_jax.drafting.drafter import Committed, Drafter
from tv_jax.drafting.growers import Drafted, Growing, grow, spread
from tv_jax.drafting.in_one_pass import InOnePass
from tv_jax.drafting.kinds import KINDS, Independent, OnFeatures, place_of

__all__ = [
  "KINDS",
  "Committed",
  "Drafted",
  "Drafter",
  "Growing",
  "InOnePass",
  "Independent",
  "OnFeatures",
  "by_confidence",
  "grow",
  "place_of",
  "spread",
  "topology",
]
