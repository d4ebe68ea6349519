"""Compares products of coins with the weights of block verification.

vLLM-Ascend's block verification has had the right residual since April 2026,
and since June (9772) its old acceptance again: the longest prefix whose weight
is not below u_1 .. u_i. Block verification needs a coin for each prefix and
another threshold. No report says so: it is our reading of the kernel at commit
182b75e (August 2026), where the rule is an option that is off by default, and
is used from three drafts on. Here are two, which show the same.
"""

from examples.faults import common

SYSTEM = "vLLM-Ascend, as we read it"
REPORT = "https://github.com/vllm-project/vllm-ascend/pull/9772"


def faulty(p, q, context, rng):
  """Accept by products of coins, recover as block verification does."""
  tokens, laws = common.propose(q, context, rng)
  kept, left = common.weights(tokens, laws, p, context)
  length = common.product_length(kept[1], kept[2], rng)
  if left[length].sum() == 0:  # it draws the first token then; so do we
    return [*tokens[:length], 0]
  return common.finish(tokens, left, length, rng)


def fixed(p, q, context, rng):
  """Toss a coin for each prefix."""
  return common.block(p, q, context, rng)
