"""Accepts with `u <= a`, where u can be 0.

EAGLE compares `r <= acp`, vLLM-Ascend `pi >= uniform`. A float32 generator of
24 bits gives exactly 0 once in 2**24. Then a token with p = 0 is accepted, for
example a token that a grammar or top-k forbids. No test on samples will see it.
The certificate gives it no weight either, but names it as an edge.
"""

from examples.faults import common

SYSTEM = "EAGLE, vLLM-Ascend"
REPORT = "https://github.com/SafeAILab/EAGLE/issues/183"


def verified(p, q, context, rng, closed):
  """Verify token by token with `u <= a` or with `u < a`."""
  tokens, laws = common.propose(q, context, rng)
  out = []
  for token, law in zip(tokens, laws, strict=True):
    target, u = p((*context, *out)), rng.random()
    ratio = target[token] / law[token]
    if not (u <= ratio if closed else u < ratio):
      return [*out, common.draw(common.residual(target, law), rng)]
    out.append(token)
  return [*out, common.draw(p((*context, *out)), rng)]


def faulty(p, q, context, rng):
  """Accept if coin and ratio are both 0."""
  return verified(p, q, context, rng, closed=True)


def fixed(p, q, context, rng):
  """Accept only if the coin is below the ratio."""
  return verified(p, q, context, rng, closed=False)
