"""Takes the softmax of the residual instead of dividing by its sum.

Until January 2024 `_speculative_sampling` in transformers took the softmax of
max(p - q, 0). These numbers are probabilities and not logits. So the softmax is
nearly flat, and emits tokens that the draft had already offered often enough.
Another fault of the same lines hid this fault (always_accepted.py).
"""

import numpy as np

from examples.faults import common

SYSTEM = "transformers"
REPORT = "https://github.com/huggingface/transformers/pull/28508"


def softmax(p, q):
  """Return the softmax of the residual."""
  left = np.exp(np.maximum(p - q, 0))
  return left / left.sum()


def faulty(p, q, context, rng):
  """Recover from the softmax."""
  tokens, laws = common.propose(q, context, rng)
  return common.check(tokens, laws, p, context, rng, recover=softmax)


def fixed(p, q, context, rng):
  """Recover from the residual."""
  return common.cycle(p, q, context, rng)
