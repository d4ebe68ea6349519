"""Divides a greedy request's logits by the -1 that stands for its temperature.

As read in tpu-inference 0.32.0 (`rejection_sampler.py`): where one request of a
batch samples, the logits of all are divided by their temperatures, and a greedy
one's is stored as -1. Its likeliest token becomes the least likely. The bonus
token comes from the sampler, which knows better. No thread tells of it.

Here a request is greedy where its law is one-hot, with logits of our choice.
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
  """Judge by the scaled law, whoever asks."""
  tokens, laws = common.likeliest(q, context)
  return common.check(
    tokens, laws, lambda prefix: scaled(p(prefix)), context, rng, last=p
  )


def fixed(p, q, context, rng):
  """Judge a greedy request by its likeliest token."""
  tokens, laws = common.likeliest(q, context)
  return common.check(tokens, laws, p, context, rng)
