"""Accepts with `u <= a`, where u can be 0.

EAGLE compares `r <= acp`, vLLM-Ascend `pi >= uniform`. A float32 generator of
24 bits gives exactly 0 once in 2**24, and then a token with p = 0 is accepted:
one that a grammar or top-k had forbidden. No test by samples will see it. The
certificate has no weight for it either, and names it as an edge.
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
  """Accept where both are 0."""
  return verified(p, q, context, rng, closed=True)


def fixed(p, q, context, rng):
  """Accept what is below."""
  return verified(p, q, context, rng, closed=False)
