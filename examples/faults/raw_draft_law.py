"""Returns another draft law than the one that was sampled.

Two candidate generators of transformers (DFlash, MTP) sampled from the
processed logits (top-k is 50 unless one says otherwise) and returned the raw
ones as q. The ratio p / q is too large by one over the mass kept, and the
residual takes away mass of tokens that can never be drafted.
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
  """Verify with the law that was sampled."""
  tokens, laws = drafted(q, context, rng)
  return common.check(tokens, laws, p, context, rng)
