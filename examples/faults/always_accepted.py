"""Compares with a coin that is always 0.

vLLM-Ascend's second runner had no 64-bit random numbers on its device, and
took u = 0: each draft with p > 0 is accepted. The text is the draft model's.
transformers came to the same until January 2024, by a wrong count of matches
(https://github.com/huggingface/transformers/pull/28508).
"""

from examples.faults import common

SYSTEM = "vLLM-Ascend"
REPORT = "https://github.com/vllm-project/vllm-ascend/issues/13730"


class Zero:
  """Gives u = 0, and draws tokens as ever."""

  def __init__(self, rng):
    """Keep the dice for the tokens."""
    self.choice = rng.choice

  def random(self):
    """Toss no coin."""
    return 0.0


def faulty(p, q, context, rng):
  """Accept whatever the target can say."""
  tokens, laws = common.propose(q, context, rng)
  return common.check(tokens, laws, p, context, Zero(rng))


def fixed(p, q, context, rng):
  """Toss a coin for each."""
  return common.cycle(p, q, context, rng)
