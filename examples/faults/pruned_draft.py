"""Leaves a drafted token out because of its own chance.

llama.cpp ends a draft at a token below `--spec-draft-p-min`, and leaves that
token out. Its drafts are the likeliest tokens, so nothing is lost there. Where
drafts are sampled (as its pull request 27694 would have it; we have not seen
how the two go together) what is left out depends on what was drawn: unlikely
drafts are never offered, and the residual still counts them as offered.
"""

from examples.faults import common

SYSTEM = "llama.cpp's p-min, with sampled drafts"
REPORT = "https://github.com/ggml-org/llama.cpp/pull/22506"

LEAST = 0.4


def cut(p, q, context, rng, confident):
  """Verify the drafts up to the first that is not `confident`."""
  tokens, laws = common.propose(q, context, rng)
  length = 0
  while length < len(tokens) and confident(tokens[length], laws[length]):
    length += 1
  return common.check(tokens[:length], laws[:length], p, context, rng)


def faulty(p, q, context, rng):
  """Look at the drafted token's chance."""
  return cut(p, q, context, rng, lambda token, law: law[token] >= LEAST)


def fixed(p, q, context, rng):
  """Look at the likeliest token's chance, known before one is drawn."""
  return cut(p, q, context, rng, lambda token, law: law.max() >= LEAST)
