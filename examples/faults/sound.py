"""Do what has been reported as a fault, and is none.

Each is a cycle, and lossless. All three cost acceptance or nothing.
"""

import numpy as np

from examples.faults import common


def matched(p, q, context, rng):
  """Draw from the target, and go on while the drafts are the same.

  The draft's law is never asked for, so its temperature may be any. It is
  exact since what is emitted is always the target's own draw, and accepts
  less than p / q does (https://github.com/lablup/mlxcel/pull/992 explains it).
  """
  tokens, _ = common.propose(q, context, rng)
  out = []
  for token in tokens:
    out.append(common.draw(p((*context, *out)), rng))
    if out[-1] != token:
      return out
  return [*out, common.draw(p((*context, *out)), rng)]


def likeliest(p, q, context, rng):
  """Draft the likeliest tokens, and judge them with q = 1.

  EAGLE-2 does (https://github.com/SafeAILab/EAGLE/issues/183): a draft that is
  not drawn has a one-hot law.
  """
  tokens, laws = [], []
  for _ in range(common.DEPTH):
    law = q((*context, *tokens))
    tokens.append(int(np.argmax(law)))
    laws.append(common.one_hot(tokens[-1], len(law)))
  return common.check(tokens, laws, p, context, rng)


def as_if_not_drawn(p, q, context, rng):
  """Draft by drawing, and judge with q = 1.

  vLLM did where it had no draft law at hand
  (https://github.com/vllm-project/vllm/issues/40149). It is right for each
  draft, so it is right for a drawn one.
  """
  tokens, laws = common.propose(q, context, rng)
  laws = [
    common.one_hot(x, len(law)) for x, law in zip(tokens, laws, strict=True)
  ]
  return common.check(tokens, laws, p, context, rng)
