"""Compares with a coin that is always 0.

vLLM-Ascend's second runner had no 64-bit random numbers on its device and used
u = 0. So each draft with p > 0 is accepted, and the text is the draft model's.
transformers had the same effect until January 2024, by a wrong count of matches
(https://github.com/huggingface/transformers/pull/28508).
"""

from examples.faults import common

SYSTEM = "vLLM-Ascend"
REPORT = "https://github.com/vllm-project/vllm-ascend/issues/13730"


class Zero:
  """Returns 0 for every uniform, and draws tokens correctly."""

  def __init__(self, rng):
    """Keep the generator for tokens."""
    self.choice = rng.choice

  def random(self):
    """Return 0."""
    return 0.0


def faulty(p, q, context, rng):
  """Accept each draft that the target can emit."""
  tokens, laws = common.propose(q, context, rng)
  return common.check(tokens, laws, p, context, Zero(rng))


def fixed(p, q, context, rng):
  """Draw a coin for each draft."""
  return common.cycle(p, q, context, rng)
