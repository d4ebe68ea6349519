"""Checks each draft with the law that comes after it.

lattice's n-gram speculation fed the first draft before it had a law to verify
it. So the first draft is never checked, and a single draft is always accepted.
The report is about greedy decoding. Our program samples, and a draft that is
not random must be accepted with probability p.
"""

import numpy as np

from examples.faults import common

SYSTEM = "lattice"
REPORT = "https://github.com/ohdearquant/lattice/issues/243"


def looked_up(q, context):
  """Return drafts that are not random, and their one-hot laws."""
  tokens = []
  for _ in range(common.DEPTH):
    tokens.append(int(np.argmax(q((*context, *tokens)))))
  size = len(q(context))
  return tokens, [common.one_hot(token, size) for token in tokens]


def faulty(p, q, context, rng):
  """Accept the first draft, and check the others."""
  (first, *tokens), (_, *laws) = looked_up(q, context)
  return [first, *common.check(tokens, laws, p, (*context, first), rng)]


def fixed(p, q, context, rng):
  """Check all drafts."""
  tokens, laws = looked_up(q, context)
  return common.check(tokens, laws, p, context, rng)
