"""Draws the token after a no from the next row.

OpenVINO GenAI noticed a rejected draft one step late: it threw the right
sample away and drew from the row after it, whose context is the rejected
draft. A word goes missing, and what was predicted to follow it stays.
"""

from examples.faults import common

SYSTEM = "OpenVINO GenAI"
REPORT = "https://github.com/openvinotoolkit/openvino.genai/issues/4190"


def faulty(p, q, context, rng):
  """Go on as if the rejected token stood there."""
  tokens, laws = common.propose(q, context, rng)
  for i, (token, law) in enumerate(zip(tokens, laws, strict=True)):
    before = (*context, *tokens[:i])
    if rng.random() * law[token] >= p(before)[token]:
      return [*tokens[:i], common.draw(p((*before, token)), rng)]
  return [*tokens, common.draw(p((*context, *tokens)), rng)]


def fixed(p, q, context, rng):
  """Draw from the residual of the row where the no was said."""
  return common.cycle(p, q, context, rng)
