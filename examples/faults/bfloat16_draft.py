"""Samples the draft in bfloat16 and verifies it in float32.

DeepSpec's `sample_tokens` took the softmax in the model's dtype, and its
verification took it again in float32. So the drafts have a law that differs
from q by bfloat16's rounding, one part in 512, and nothing corrects for it.
"""

import numpy as np

from examples.faults import common

SYSTEM = "DeepSpec"
REPORT = "https://github.com/deepseek-ai/DeepSpec/issues/31"


def bfloat16(law):
  """Round to nearest, ties to even."""
  bits = np.asarray(law, np.float32).view(np.uint32)
  bits = bits + 0x7FFF + ((bits >> 16) & 1)
  rounded = (bits & 0xFFFF0000).astype(np.uint32).view(np.float32)
  return rounded.astype(float) / rounded.astype(float).sum()


def drafted(q, context, rng):
  """Draft from the rounded law."""
  return common.propose(lambda prefix: bfloat16(q(prefix)), context, rng)


def faulty(p, q, context, rng):
  """Verify with the law before rounding."""
  tokens, _ = drafted(q, context, rng)
  exact = [q((*context, *tokens[:i])) for i in range(len(tokens))]
  return common.check(tokens, exact, p, context, rng)


def fixed(p, q, context, rng):
  """Verify with the rounded law; sampling in float32 is correct as well."""
  tokens, laws = drafted(q, context, rng)
  return common.check(tokens, laws, p, context, rng)
