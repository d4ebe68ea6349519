"""Verifies with top-p before the temperature, and samples with it after.

As read in tpu-inference 0.32.0: its rejection sampler masks the logits by top-k
and top-p and then divides them by the temperature, its sampler divides first.
Below a temperature of 1 the first keeps more tokens, and emits some that the
request had forbidden. No thread tells of it. Top-k alone is the same in both.
"""

import numpy as np

from examples.faults import common

SYSTEM, REPORT = common.TPU_INFERENCE
LAWS = (0.6, 0.4, 0.0), (0.4, 0.3, 0.3)

TEMPERATURE = 0.5


def request(law):
  """Find logits and a top-p whose law this is.

  What the law lacks was cut: tokens half as likely as its least one.
  """
  weights = np.where(law > 0, law, law[law > 0].min() / 2)
  return TEMPERATURE * np.log(weights), 1 / weights.sum()


def softmax(logits):
  """Normalise."""
  weights = np.exp(logits - logits.max())
  return weights / weights.sum()


def top_p(logits, mass):
  """Mask the least likely tokens beyond this mass."""
  law = softmax(logits)
  order = np.argsort(-law, kind="stable")
  before = np.cumsum(law[order]) - law[order]
  masked = np.full(len(law), -np.inf)
  kept = order[before < mass - 1e-12]
  masked[kept] = logits[kept]
  return masked


def masked_first(law):
  """Give the verifier's law."""
  logits, mass = request(law)
  return softmax(top_p(logits, mass) / TEMPERATURE)


def masked_last(law):
  """Give the sampler's law."""
  logits, mass = request(law)
  return softmax(top_p(logits / TEMPERATURE, mass))


def verified(p, q, context, rng, law_of):
  """Verify by one of these laws; what follows the drafts is the sampler's."""
  tokens, laws = common.propose(q, context, rng)
  return common.check(
    tokens, laws, lambda prefix: law_of(p(prefix)), context, rng, last=p
  )


def faulty(p, q, context, rng):
  """Mask first."""
  return verified(p, q, context, rng, masked_first)


def fixed(p, q, context, rng):
  """Mask last."""
  return verified(p, q, context, rng, masked_last)
