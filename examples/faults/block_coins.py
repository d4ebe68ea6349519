"""Compares products of coins with the weights of block verification.

vLLM-Ascend's block verification has had the right residual since April 2026.
Since June (pull request 9772) it has its old acceptance again: the longest
prefix with a weight of at least u_1 .. u_i. Block verification needs a separate
coin for each prefix, and other thresholds. No report says so: it is our reading
of the kernel at commit 182b75e (August 2026). There the rule is an option, off
by default, that applies to three drafts or more. Two drafts show the same.
"""

from examples.faults import common

SYSTEM = "vLLM-Ascend, as we read it"
REPORT = "https://github.com/vllm-project/vllm-ascend/pull/9772"


def faulty(p, q, context, rng):
  """Accept by products of coins; recover as block verification does."""
  tokens, laws = common.propose(q, context, rng)
  kept, left = common.weights(tokens, laws, p, context)
  length = common.product_length(kept[1], kept[2], rng)
  if left[length].sum() == 0:  # the kernel then draws token 0; so do we
    return [*tokens[:length], 0]
  return common.finish(tokens, left, length, rng)


def fixed(p, q, context, rng):
  """Draw a coin for each prefix."""
  return common.block(p, q, context, rng)
