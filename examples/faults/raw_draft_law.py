"""Samples the processed draft law, and returns the raw law as q.

Two candidate generators of transformers (DFlash, MTP) sampled from the
processed logits (top-k is 50 by default) and returned the raw logits as q. The
ratio p / q is too large by a factor of 1 / (mass that top-k keeps), and the
residual takes mass from tokens that can never be drafted.
"""

import numpy as np

from examples.faults import common

SYSTEM = "transformers"
REPORT = "https://github.com/huggingface/transformers/issues/47932"

TOP_K = 2


def top_k(law):
  """Keep the likeliest tokens."""
  kept = np.zeros_like(law)
  best = np.argsort(-law, kind="stable")[:TOP_K]
  kept[best] = law[best]
  return kept / kept.sum()


def drafted(q, context, rng):
  """Draft from the processed law."""
  return common.propose(lambda prefix: top_k(q(prefix)), context, rng)


def faulty(p, q, context, rng):
  """Verify with the raw law."""
  tokens, _ = drafted(q, context, rng)
  raw = [q((*context, *tokens[:i])) for i in range(len(tokens))]
  return common.check(tokens, raw, p, context, rng)


def fixed(p, q, context, rng):
  """Verify with the processed law."""
  tokens, laws = drafted(q, context, rng)
  return common.check(tokens, laws, p, context, rng)
