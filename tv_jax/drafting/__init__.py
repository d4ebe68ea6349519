"""Drafting: what a draft model does, and the trees that it grows."""

from tv_jax.drafting.drafter import Drafter, News
from tv_jax.drafting.grow import Draft, grow, spread
from tv_jax.drafting.kinds import KINDS, Independent, OnFeatures

__all__ = [
  "KINDS",
  "Draft",
  "Drafter",
  "Independent",
  "News",
  "OnFeatures",
  "grow",
  "spread",
]
