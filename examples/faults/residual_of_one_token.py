"""Takes the draft's mass away at the drafted token only.

xLLM kept one number of the draft's law, the drafted token's chance. It
accepted with p / q, as one does for a draft that was sampled, but after a no
it drew from p without that token, as one does for a draft that was not. What
other drafts would have brought is then given twice. EAGLE's first code did
the same (its issue 20).
"""

from examples.faults import common

SYSTEM = "xLLM"
REPORT = "https://github.com/xLLM-AI/xllm/pull/2175"


def faulty(p, q, context, rng):
  """Subtract one token's mass; p < q there, so it loses all."""
  tokens, laws = common.propose(q, context, rng)
  at = [
    common.one_hot(x, len(law)) for x, law in zip(tokens, laws, strict=True)
  ]
  sparse = [law * one for law, one in zip(laws, at, strict=True)]
  return common.check(tokens, sparse, p, context, rng)


def fixed(p, q, context, rng):
  """Subtract the whole law."""
  return common.cycle(p, q, context, rng)
