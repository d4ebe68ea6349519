"""Accepts blocks, and recovers as if single tokens had been verified.

vLLM-Ascend accepted the longest prefix with u_1 .. u_i below the product of its
capped ratios, and drew the next token from the token-level residual. Block
verification has another acceptance, and the residual belongs to another rule.
This applied to three drafts or more, until April 2026. Two drafts show it.
"""

from examples.faults import common

SYSTEM = "vLLM-Ascend"
REPORT = "https://github.com/vllm-project/vllm-ascend/pull/7808"


def faulty(p, q, context, rng):
  """Accept by products of coins; recover token by token."""
  tokens, laws = common.propose(q, context, rng)
  rows = [p((*context, *tokens[:i])) for i in range(len(tokens) + 1)]
  judged = zip(tokens, rows, laws, strict=False)
  one, other = (min(1.0, row[x] / law[x]) for x, row, law in judged)
  length = common.product_length(one, one * other, rng)
  law = rows[length]
  if length < len(tokens):
    law = common.residual(law, laws[length])
  return [*tokens[:length], common.draw(law, rng)]


def fixed(p, q, context, rng):
  """Accept and recover as block verification does."""
  return common.block(p, q, context, rng)
