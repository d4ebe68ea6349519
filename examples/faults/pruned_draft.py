"""Leaves out a drafted token that is unlikely.

llama.cpp ends a draft at a token below `--spec-draft-p-min`, and leaves out
that token. Its drafts are the likeliest tokens, so this is lossless there. If
drafts are sampled (as its pull request 27694 proposes; we have not seen how the
two go together), the cut depends on the drawn token. Unlikely drafts are never
offered, but the residual counts them as offered.
"""

from examples.faults import common

SYSTEM = "llama.cpp's p-min, with sampled drafts"
REPORT = "https://github.com/ggml-org/llama.cpp/pull/22506"

LEAST = 0.4


def cut(p, q, context, rng, confident):
  """Verify the drafts before the first that is not `confident`."""
  tokens, laws = common.propose(q, context, rng)
  length = 0
  while length < len(tokens) and confident(tokens[length], laws[length]):
    length += 1
  return common.check(tokens[:length], laws[:length], p, context, rng)


def faulty(p, q, context, rng):
  """Look at the drafted token's probability."""
  return cut(p, q, context, rng, lambda token, law: law[token] >= LEAST)


def fixed(p, q, context, rng):
  """Look at the likeliest token's probability, known before the draw."""
  return cut(p, q, context, rng, lambda token, law: law.max() >= LEAST)
