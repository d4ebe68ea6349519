"""Divides a greedy request's logits by the -1 that stands for its temperature.

This is our reading of tpu-inference 0.32.0 (`rejection_sampler.py`). If any
request of a batch samples, the logits of all requests are divided by their
temperatures, and the temperature of a greedy request is stored as -1. So its
likeliest token becomes the least likely. The bonus token is correct, because it
comes from the sampler. No thread reports the fault.

In our program a request is greedy if its law is one-hot. We chose the logits.
"""

import numpy as np

from examples.faults import common

SYSTEM, REPORT = common.TPU_INFERENCE
LAWS = (0.0, 1.0, 0.0), (0.25, 0.5, 0.25)

GREEDY = -1


def scaled(law):
  """Divide by the stored temperature."""
  greedy = law.max() == 1
  weights = np.exp(law) ** GREEDY if greedy else law
  return weights / weights.sum()


def faulty(p, q, context, rng):
  """Verify every request by the scaled law."""
  tokens, laws = common.likeliest(q, context)
  return common.check(
    tokens, laws, lambda prefix: scaled(p(prefix)), context, rng, last=p
  )


def fixed(p, q, context, rng):
  """Verify a greedy request by its likeliest token."""
  tokens, laws = common.likeliest(q, context)
  return common.check(tokens, laws, p, context, rng)
