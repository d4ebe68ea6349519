"""How siblings are drawn, and the law that each was drawn from."""

from tv_jax.proposals.drawing import exhausted, over
from tv_jax.proposals.gate import gated
from tv_jax.proposals.proposal import INVALID, NEVER, Proposal
from tv_jax.proposals.sample_then_top import SAMPLE_THEN_TOP
from tv_jax.proposals.table import PROPOSALS, built_in, resolve
from tv_jax.proposals.top_k import TOP_K
from tv_jax.proposals.with_replacement import WITH_REPLACEMENT
from tv_jax.proposals.without_replacement import WITHOUT_REPLACEMENT

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
