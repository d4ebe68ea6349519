"""Judges whole blocks, and recovers as if tokens had been judged.

vLLM-Ascend accepted the longest prefix with u_1 .. u_i below the product of
its capped ratios, and drew what follows from the token-level residual. The
acceptance is not block verification's, and the residual is another rule's. It
was on for three drafts and more, until April 2026; two show it.
"""

from examples.faults import common

SYSTEM = "vLLM-Ascend"
REPORT = "https://github.com/vllm-project/vllm-ascend/pull/7808"


def faulty(p, q, context, rng):
  """Accept by products of coins, recover token by token."""
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
