"""Takes the softmax of the residual instead of dividing by its sum.

Until January 2024 `_speculative_sampling` in transformers took the softmax of
max(p - q, 0). The numbers are chances and no logits: the softmax is nearly
flat, and gives as much to tokens that the draft had offered often enough. It
was hidden behind another fault of the same lines (always_accepted.py).
"""

import numpy as np

from examples.faults import common

SYSTEM = "transformers"
REPORT = "https://github.com/huggingface/transformers/pull/28508"


def softmax(p, q):
  """Give the law after a no as it was."""
  left = np.exp(np.maximum(p - q, 0))
  return left / left.sum()


def faulty(p, q, context, rng):
  """Recover from the softmax."""
  tokens, laws = common.propose(q, context, rng)
  return common.check(tokens, laws, p, context, rng, recover=softmax)


def fixed(p, q, context, rng):
  """Recover from the residual."""
  return common.cycle(p, q, context, rng)
