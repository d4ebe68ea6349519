"""Draws the token after a rejection from the next row.

OpenVINO GenAI noticed a rejected draft one step late. It discarded the correct
sample, and drew from the next row, with the rejected draft as context. A word
is missing in the text, and the word predicted to follow it is there.
"""

from examples.faults import common

SYSTEM = "OpenVINO GenAI"
REPORT = "https://github.com/openvinotoolkit/openvino.genai/issues/4190"


def faulty(p, q, context, rng):
  """Continue as if the rejected token were accepted."""
  tokens, laws = common.propose(q, context, rng)
  for i, (token, law) in enumerate(zip(tokens, laws, strict=True)):
    before = (*context, *tokens[:i])
    if rng.random() * law[token] >= p(before)[token]:
      return [*tokens[:i], common.draw(p((*before, token)), rng)]
  return [*tokens, common.draw(p((*context, *tokens)), rng)]


def fixed(p, q, context, rng):
  """Draw from the residual of the row that rejected the draft."""
  return common.cycle(p, q, context, rng)
