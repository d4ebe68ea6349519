"""The proposals by name."""

from __future__ import annotations

from tv_jax.io import names
from tv_jax.proposals.proposal import Proposal
from tv_jax.proposals.standard import (
  SAMPLE_THEN_TOP,
  TOP_K,
  WITH_REPLACEMENT,
  WITHOUT_REPLACEMENT,
)

PROPOSALS = {
  proposal.name: proposal
  for proposal in (
    WITHOUT_REPLACEMENT,
    WITH_REPLACEMENT,
    TOP_K,
    SAMPLE_THEN_TOP,
  )
}


def resolve(proposal: Proposal | str) -> Proposal:
  """Finds a proposal by name, and names every proposal; see `names.resolve`."""
  return names.resolve(PROPOSALS, proposal, "proposal")
