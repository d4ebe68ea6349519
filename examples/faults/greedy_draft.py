"""Drafts greedily and verifies as if the draft had been sampled.

From May to September 2024 transformers made the assistant greedy, since more of
its tokens match, while verification still used the assistant's softmax as q.
The likeliest draft token is offered with probability 1, but verified as if it
had been offered with probability q.
"""

import numpy as np

from examples.faults import common

SYSTEM = "transformers"
REPORT = "https://github.com/huggingface/transformers/issues/32867"


def faulty(p, q, context, rng):
  """Draft the likeliest token, and verify with the softmax as q."""
  tokens, laws = [], []
  for _ in range(common.DEPTH):
    laws.append(q((*context, *tokens)))
    tokens.append(int(np.argmax(laws[-1])))
  return common.check(tokens, laws, p, context, rng)


def fixed(p, q, context, rng):
  """Sample, as transformers does again; a one-hot q is correct as well."""
  return common.cycle(p, q, context, rng)
