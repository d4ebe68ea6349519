"""Checks each draft with the law that comes after it.

lattice's n-gram speculation fed the first draft before it had a law to judge
it by, so that the first is never checked: a draft of one token is always
accepted. The report is of greedy decoding; here is the same with sampling,
where a draft that is not drawn is accepted with chance p.
"""

import numpy as np

from examples.faults import common

SYSTEM = "lattice"
REPORT = "https://github.com/ohdearquant/lattice/issues/243"


def looked_up(q, context):
  """Give a draft that is not drawn, and its one-hot laws."""
  tokens = []
  for _ in range(common.DEPTH):
    tokens.append(int(np.argmax(q((*context, *tokens)))))
  size = len(q(context))
  return tokens, [common.one_hot(token, size) for token in tokens]


def faulty(p, q, context, rng):
  """Take the first as it is, and check the others."""
  (first, *tokens), (_, *laws) = looked_up(q, context)
  return [first, *common.check(tokens, laws, p, (*context, first), rng)]


def fixed(p, q, context, rng):
  """Check all."""
  tokens, laws = looked_up(q, context)
  return common.check(tokens, laws, p, context, rng)
