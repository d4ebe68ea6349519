"""Recovers with the noise that drew the draft.

vLLM's second runner keyed its Gumbel noise by the position, both for the draft
and for the token after a rejection. A token that was not drafted had small
noise, the more so if the draft ranked it high. So these tokens are recovered
too seldom. The fault was reported twice (47386, then 54282). It came back in a
fork where the drafter called the old function
(https://github.com/local-inference-lab/vllm/issues/205).
"""

import numpy as np

from examples.faults import common

SYSTEM = "vLLM"
REPORT = "https://github.com/vllm-project/vllm/pull/54282"


def race(law, noise):
  """Draw by exponential noise E; -log E is Gumbel noise."""
  return int(np.argmax(law / noise))


def verified(p, q, context, rng, shared):
  """Draft and verify; if `shared`, a position's noise is used twice."""
  tokens, laws, noises = [], [], []
  for _ in range(common.DEPTH):
    laws.append(q((*context, *tokens)))
    noises.append(rng.exponential(size=len(laws[-1])))
    tokens.append(race(laws[-1], noises[-1]))
  out = []
  for token, law, noise in zip(tokens, laws, noises, strict=True):
    target = p((*context, *out))
    if rng.random() * law[token] >= target[token]:
      if not shared:
        noise = rng.exponential(size=len(law))
      return [*out, race(common.residual(target, law), noise)]
    out.append(token)
  target = p((*context, *out))
  return [*out, race(target, rng.exponential(size=len(target)))]


def faulty(p, q, context, rng):
  """Use a position's noise twice."""
  return verified(p, q, context, rng, shared=True)


def fixed(p, q, context, rng):
  """Draw new noise for the token after a rejection."""
  return verified(p, q, context, rng, shared=False)
