"""Ignores a small residual, and enlarges a small q.

DeepSpec clamps q at 1e-8 in the ratio, and draws from p if the residual sums to
1e-8 or less. Both are wrong and neither matters: such a draft, or a rejection
there, has a probability of 1e-8 or less. So the distance is below 1e-8 for each
draft. The file shows a fault that an exact method sees, and that needs no fix.
The usual certificate has no laws as near to each other as LAWS.
"""

import numpy as np

from examples.faults import common

SYSTEM = "DeepSpec"
REPORT = (
  "https://github.com/deepseek-ai/DeepSpec/blob/afdfa7c/deepspec/utils/"
  "sampling.py"
)
LAWS = (0.5, 0.3, 0.2), (0.5 + 2e-9, 0.3 - 1e-9, 0.2 - 1e-9)

LEAST = 1e-8


def clamped(p, q):
  """Return p where the residual is small."""
  left = np.maximum(p - q, 0)
  return p if left.sum() <= LEAST else left / left.sum()


def faulty(p, q, context, rng):
  """Clamp q and the residual."""
  tokens, laws = common.propose(q, context, rng)
  out = []
  for token, law in zip(tokens, laws, strict=True):
    target = p((*context, *out))
    if rng.random() * max(law[token], LEAST) >= target[token]:
      return [*out, common.draw(clamped(target, law), rng)]
    out.append(token)
  return [*out, common.draw(p((*context, *out)), rng)]


def fixed(p, q, context, rng):
  """Clamp nothing: where a rejection is possible, the residual is positive."""
  return common.cycle(p, q, context, rng)
