"""Chooses how much to verify by confidences that depend on the tokens cut.

DSpark's paper (2607.05147, Appendix A) warns of this fault. The second
confidence depends on the first drafted token. So the length with the best
throughput drops first tokens with poor continuations. DSpark's scheduler stops
at the first length that is worse; in production it uses confidences from two
steps before.
"""

import numpy as np

from examples.faults import common

SYSTEM = "a warning in DSpark's paper"
REPORT = "https://arxiv.org/abs/2607.05147"

SPEED = (1.0, 0.5, 0.45)  # the paper's steps a second, for 0, 1, 2 drafts


def throughputs(p, q, context, tokens):
  """Predict tokens a second for each length, with perfect confidences."""
  expected = 1 + np.cumsum([0, *common.survival(p, q, context, tokens)])
  return expected * SPEED


def faulty(p, q, context, rng):
  """Choose the best of all lengths."""
  tokens, laws = common.propose(q, context, rng)
  length = int(np.argmax(throughputs(p, q, context, tokens)))
  return common.check(tokens[:length], laws[:length], p, context, rng)


def fixed(p, q, context, rng):
  """Stop before the first length that lowers the throughput."""
  tokens, laws = common.propose(q, context, rng)
  made = throughputs(p, q, context, tokens)
  length = 0
  while length < len(tokens) and made[length + 1] > made[length]:
    length += 1
  return common.check(tokens[:length], laws[:length], p, context, rng)
