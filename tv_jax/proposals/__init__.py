"""Proposals: how siblings are drawn, and their distributions."""

from tv_jax.proposals.proposal import INVALID, NEVER, Proposal
from tv_jax.proposals.standard import (
  SAMPLE_THEN_TOP,
  TOP_K,
  WITH_REPLACEMENT,
  WITHOUT_REPLACEMENT,
  min_mass,
  one_hot_of_best,
  safe_reciprocal,
)
from tv_jax.proposals.table import PROPOSALS, resolve

__all__ = [
  "INVALID",
  "NEVER",
  "PROPOSALS",
  "SAMPLE_THEN_TOP",
  "TOP_K",
  "WITHOUT_REPLACEMENT",
  "WITH_REPLACEMENT",
  "Proposal",
  "min_mass",
  "one_hot_of_best",
  "resolve",
  "safe_reciprocal",
]
