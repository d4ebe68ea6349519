"""Stops block verification at the first no.

Block verification takes the longest prefix whose coin says yes, whatever the
shorter ones said. A review of vLLM-Ascend's port asked for what token-level
rules do, to stop at the first no; with the block's own thresholds and
residual that is no longer lossless, and shorter. We know of no release that
had it: the fault here is the advice.
"""

from examples.faults import common

SYSTEM = "vLLM-Ascend, a review"
REPORT = "https://github.com/vllm-project/vllm-ascend/pull/11985"


def faulty(p, q, context, rng):
  """Stop at the first no."""
  return common.block(p, q, context, rng, stop=True)


def fixed(p, q, context, rng):
  """Go through all."""
  return common.block(p, q, context, rng)
