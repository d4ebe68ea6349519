"""Accepts what the target finds typical.

Medusa accepts a draft when p is above a threshold that falls with the entropy
of the target's law, whatever chance it was drafted with. It is lossy by
design, and said to be so; engines offer it beside lossless rules (vLLM did,
https://github.com/vllm-project/vllm/pull/5131; vLLM-Ascend's entropy verify,
https://github.com/vllm-project/vllm-ascend/pull/9772, is of its kind).
"""

import numpy as np

from examples.faults import common

SYSTEM = "Medusa"
REPORT = "https://arxiv.org/abs/2401.10774"

THRESHOLD, ALPHA = 0.09, 0.3  # Medusa's


def faulty(p, q, context, rng):
  """Accept typical drafts, and draw from the target after the first other."""
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
