"""Accepts drafts that are typical of the target.

Medusa accepts a draft if p is above a threshold that falls with the entropy of
the target's law. The probability of the draft does not matter. The rule is
lossy by design, and its authors say so. Engines offer it next to lossless rules
(vLLM did, https://github.com/vllm-project/vllm/pull/5131; vLLM-Ascend's entropy
verify, https://github.com/vllm-project/vllm-ascend/pull/9772, is similar).
"""

import numpy as np

from examples.faults import common

SYSTEM = "Medusa"
REPORT = "https://arxiv.org/abs/2401.10774"

THRESHOLD, ALPHA = 0.09, 0.3  # Medusa's


def faulty(p, q, context, rng):
  """Accept typical drafts; draw from the target at the first other draft."""
  tokens, _ = common.propose(q, context, rng)
  out = []
  for token in tokens:
    law = p((*context, *out))
    entropy = -sum(x * np.log(x) for x in law if x > 0)
    if law[token] <= min(THRESHOLD, ALPHA * np.exp(-entropy)):
      break
    out.append(token)
  return [*out, common.draw(p((*context, *out)), rng)]


def fixed(p, q, context, rng):
  """Accept with p / q."""
  return common.cycle(p, q, context, rng)
