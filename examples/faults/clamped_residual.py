"""Takes a small residual for none, and a small q for a larger one.

DeepSpec clamps q at 1e-8 in the ratio, and draws from p itself where 1e-8 or
less is left of it. Both are wrong and neither matters: such a draft, or a no,
is as rare as that, so the distance is below 1e-8 for each draft. It is here to
show what an exact answer can see, and what need not be mended. The usual
certificate has no laws as near to each other as LAWS.
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
  """Give p where little is left."""
  left = np.maximum(p - q, 0)
  return p if left.sum() <= LEAST else left / left.sum()


def faulty(p, q, context, rng):
  """Clamp both."""
  tokens, laws = common.propose(q, context, rng)
  out = []
  for token, law in zip(tokens, laws, strict=True):
    target = p((*context, *out))
    if rng.random() * max(law[token], LEAST) >= target[token]:
      return [*out, common.draw(clamped(target, law), rng)]
    out.append(token)
  return [*out, common.draw(p((*context, *out)), rng)]


def fixed(p, q, context, rng):
  """Clamp nothing: where a no is possible, something is left."""
  return common.cycle(p, q, context, rng)
