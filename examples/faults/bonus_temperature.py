"""Draws the bonus token at another temperature than the other tokens.

EAGLE-1, and its copy in Spec-Bench, verified a tree with the processed logits
(temperature, top-p), but drew the token after an accepted leaf from the raw
logits. So the token after a fully accepted path has the law at temperature 1.
The missing line was added in April 2025.
"""

import numpy as np

from examples.faults import common

SYSTEM = "EAGLE-1, Spec-Bench"
REPORT = "https://github.com/SafeAILab/EAGLE/commit/bf10ac5"

TEMPERATURE = 0.5  # p is the law at this temperature


def raw(law):
  """Undo the temperature."""
  law = np.asarray(law) ** TEMPERATURE
  return law / law.sum()


def faulty(tree, tokens, q, p, rng):
  """Draw the token after a leaf from the raw law."""
  return common.walk(tree, tokens, p, q, rng, last=[raw(law) for law in p])


def fixed(tree, tokens, q, p, rng):
  """Draw all tokens at the same temperature."""
  return common.walk(tree, tokens, p, q, rng, last=p)
