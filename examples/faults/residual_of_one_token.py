"""Subtracts the draft's mass at the drafted token only.

xLLM kept a single number of the draft's law, the drafted token's probability.
It accepted with p / q, which is right for a sampled draft. After a rejection it
drew from p without that token, which is right for a draft that is not sampled.
So other tokens get probability twice, as accepted drafts and after a rejection.
EAGLE's first code did the same (its issue 20).
"""

from examples.faults import common

SYSTEM = "xLLM"
REPORT = "https://github.com/xLLM-AI/xllm/pull/2175"


def faulty(p, q, context, rng):
  """Subtract the drafted token's mass; p < q there, so nothing remains."""
  tokens, laws = common.propose(q, context, rng)
  at = [
    common.one_hot(x, len(law)) for x, law in zip(tokens, laws, strict=True)
  ]
  sparse = [law * one for law, one in zip(laws, at, strict=True)]
  return common.check(tokens, sparse, p, context, rng)


def fixed(p, q, context, rng):
  """Subtract the whole law."""
  return common.cycle(p, q, context, rng)
