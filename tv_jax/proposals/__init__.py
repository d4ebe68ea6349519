"""How siblings are drawn, and the law that each was drawn from."""

from tv_jax.proposals.gate import gated
from tv_jax.proposals.proposal import INVALID, NEVER, Proposal
from tv_jax.proposals.standard import (
  SAMPLE_THEN_TOP,
  TOP_K,
  WITH_REPLACEMENT,
  WITHOUT_REPLACEMENT,
  exhausted,
  over,
)
from tv_jax.proposals.table import PROPOSALS, built_in, resolve

__all__ = [
  "INVALID",
  "NEVER",
  "PROPOSALS",
  "SAMPLE_THEN_TOP",
  "TOP_K",
  "WITHOUT_REPLACEMENT",
  "WITH_REPLACEMENT",
  "Proposal",
  "built_in",
  "exhausted",
  "gated",
  "over",
  "resolve",
]
