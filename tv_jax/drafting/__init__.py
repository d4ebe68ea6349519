"""Drafting: what a draft model does, and the trees that it grows."""

from tv_jax.drafting.grow import Draft, grow, spread
from tv_jax.drafting.kinds import KINDS, Independent, News, OnFeatures

__all__ = [
  "KINDS",
  "Draft",
  "Independent",
  "News",
  "OnFeatures",
  "grow",
  "spread",
]
