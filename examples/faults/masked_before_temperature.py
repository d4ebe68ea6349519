"""Verifies with top-p before the temperature, and samples with it after.

This is our reading of tpu-inference 0.32.0. Its rejection sampler masks the
logits by top-k and top-p and then divides them by the temperature; its sampler
divides first. Below a temperature of 1 the rejection sampler keeps more tokens,
and emits some that the request forbids. No thread reports the fault. Top-k
alone is the same in both orders.
"""

import numpy as np

from examples.faults import common

SYSTEM, REPORT = common.TPU_INFERENCE
LAWS = (0.6, 0.4, 0.0), (0.4, 0.3, 0.3)

TEMPERATURE = 0.5


def request(law):
  """Find logits and a top-p that produce the law.

  Tokens that the law excludes were cut by top-p. They are half as likely as the
  least likely other token.
  """
  weights = np.where(law > 0, law, law[law > 0].min() / 2)
  return TEMPERATURE * np.log(weights), 1 / weights.sum()


def softmax(logits):
  """Return the softmax."""
  weights = np.exp(logits - logits.max())
  return weights / weights.sum()


def top_p(logits, mass):
  """Mask the least likely tokens beyond the mass of top-p."""
  law = softmax(logits)
  order = np.argsort(-law, kind="stable")
  before = np.cumsum(law[order]) - law[order]
  masked = np.full(len(law), -np.inf)
  kept = order[before < mass - 1e-12]
  masked[kept] = logits[kept]
  return masked


def masked_first(law):
  """Return the law that the rejection sampler uses."""
  logits, mass = request(law)
  return softmax(top_p(logits, mass) / TEMPERATURE)


def masked_last(law):
  """Return the law that the sampler uses."""
  logits, mass = request(law)
  return softmax(top_p(logits / TEMPERATURE, mass))


def verified(p, q, context, rng, law_of):
  """Verify drafts by `law_of`; the sampler draws the bonus token."""
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
