"""Give EAGLE's `evaluate_posterior` a tree of its deterministic drafts.

EAGLE-2 and EAGLE-3 draft the likeliest tokens and judge them with q = 1.
"""

import functools

import torch

from examples import published

REPOSITORY = "SafeAILab/EAGLE"
SYSTEM = "EAGLE-2, EAGLE-3"
SOURCE = "eagle/model/utils.py: `evaluate_posterior`"
SETTINGS = {
  "tree": "kary:2x2",
  "cases": 8,
  "proposal": "top_k",
  "arrays": "torch",
}
eagle = published.load(
  published.checkout(REPOSITORY) / "eagle/model/utils.py", "eagle_utils"
)


def verify(tree, tokens, q, p, rng, temperature=1.0):
  """Verify a tree; the logits are those that give p at this temperature."""
  rows, nodes, texts = published.candidates(tree, tokens)
  best, accepted, law = eagle.evaluate_posterior(
    (temperature * p.log())[nodes],
    texts,
    eagle.prepare_logits_processor(temperature=temperature),
  )
  return rows[best][1 : accepted + 1], torch.multinomial(law, 1)


PROGRAMS = {
  "T = 1": verify,
  "T = 0.7": functools.partial(verify, temperature=0.7),
}
