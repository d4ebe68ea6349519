"""Draws the bonus token at another temperature than the rest.

EAGLE-1, and its copy in Spec-Bench, verified a tree with the processed logits
(temperature, top-p), and drew what follows an accepted leaf from the raw ones.
The last token of every fully accepted path has the law of temperature 1. The
line that was missing came in April 2025.
"""

import numpy as np

from examples.faults import common

SYSTEM = "EAGLE-1, Spec-Bench"
REPORT = "https://github.com/SafeAILab/EAGLE/commit/bf10ac5"

TEMPERATURE = 0.5  # p is the law at this temperature


def raw(law):
  """Take the temperature back."""
  law = np.asarray(law) ** TEMPERATURE
  return law / law.sum()


def faulty(tree, tokens, q, p, rng):
  """Draw what follows a leaf from the raw law."""
  return common.walk(tree, tokens, p, q, rng, last=[raw(law) for law in p])


def fixed(tree, tokens, q, p, rng):
  """Draw all from one law."""
  return common.walk(tree, tokens, p, q, rng, last=p)
