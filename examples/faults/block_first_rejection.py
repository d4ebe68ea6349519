"""Stops block verification at the first rejection.

Block verification accepts the longest prefix that passes its coin, even if
shorter prefixes fail. A review of vLLM-Ascend's port asked to stop at the first
rejection, as token-level rules do. With the thresholds and the residual of
block verification, the result is shorter and not lossless. We know of no
release with this fault, only of the advice.
"""

from examples.faults import common

SYSTEM = "vLLM-Ascend, a review"
REPORT = "https://github.com/vllm-project/vllm-ascend/pull/11985"


def faulty(p, q, context, rng):
  """Stop at the first rejection."""
  return common.block(p, q, context, rng, stop=True)


def fixed(p, q, context, rng):
  """Go through all prefixes."""
  return common.block(p, q, context, rng)
