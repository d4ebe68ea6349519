"""Share the noise of draft and target: the output does not depend on the draft.

Each position has exponential noise of its own, E. Both models draw by it: the
token of the least E_i / law_i. Where both draw the same, the draft is accepted.
What is emitted is always the target's own draw, a function of the noise, p and
the tokens before: another draft, or none, changes the number of tokens that a
cycle gives, and never a token.

    python -m tv_jax.certify --program=examples.coupled:gls_cycle
"""

import numpy as np

DEPTH = 2  # drafts of a chain
LISTS = 2  # drafts of a position


def race(law, noise):
  """Draw the token of the least noise / law; of all, where noise is lists."""
  return int(np.argmax(law / noise)) % len(law)


def gumbel_cycle(p, q, context, rng):
  """Draft a chain with the noise that the target draws by (2408.07978)."""
  noise = rng.exponential(size=(DEPTH + 1, len(p(context))))
  drafts = []
  for row in noise[:DEPTH]:
    drafts.append(race(q((*context, *drafts)), row))
  out = []
  for row, draft in zip(noise, [*drafts, None], strict=True):
    out.append(race(p((*context, *out)), row))
    if out[-1] != draft:
      return out


def gls_cycle(p, q, context, rng, depth=1):
  """Draft several chains, each with its own noise (GLS, 2506.05632).

  The target draws by the least of their noises, of all chains at each
  position: of those alone that still agree, as in the paper's algorithm, it
  would be exact too, but from the second token on the drafts had a say.
  """
  noise = rng.exponential(size=(depth + 1, LISTS, len(p(context))))
  chains = []
  for k in range(LISTS):
    chain = []
    for row in noise[:depth, k]:
      chain.append(race(q((*context, *chain)), row))
    chains.append(chain)
  out = []
  for row in noise:
    out.append(race(p((*context, *out)), row))
    if out not in [chain[: len(out)] for chain in chains]:
      return out
