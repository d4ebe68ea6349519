"""Takes a small residual for none, and a small q for a larger one.

DeepSpec clamps q at 1e-8 in the ratio, and draws from p itself where p and q
differ by 1e-8 or less. Both are wrong and neither matters: a no is then as
rare as the residual is small, so the distance is below 1e-8 for a draft. It
is here to show what the certificate can see, and what need not be mended.
"""

import numpy as np

from examples.faults import common

SYSTEM = "DeepSpec"
REPORT = (
  "https://github.com/deepseek-ai/DeepSpec/blob/afdfa7c/deepspec/utils/"
  "sampling.py"
)
KIND = "cycle"
SMALL = 2e-8

LEAST = 1e-8


def clamped(p, q):
  """Give p where little is left."""
  left = np.maximum(p - q, 0)
  return p if left.sum() <= LEAST else left / left.sum()


def faulty(p, q, context, rng):
  """Clamp both."""
  tokens, laws = common.propose(q, context, rng)
  laws = [np.maximum(law, LEAST) for law in laws]
  return common.check(tokens, laws, p, context, rng, recover=clamped)


def fixed(p, q, context, rng):
  """Clamp nothing: where a no is possible, something is left."""
  return common.cycle(p, q, context, rng)
