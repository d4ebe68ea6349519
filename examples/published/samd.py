"""Give Spec-Bench's SAMD a tree of deterministic drafts, judged with q = 1.

The token after a fully accepted path is drawn without the temperature.
"""

import functools

import torch

from examples import published

REPOSITORY = "hemingkx/Spec-Bench"
SYSTEM = "Spec-Bench's SAMD"
SOURCE = "model/samd/utils.py: `eval_posterior`"
SETTINGS = {
  "tree": "kary:2x2",
  "cases": 8,
  "proposal": "top_k",
  "arrays": "torch",
}
samd = published.load(
  published.checkout(REPOSITORY) / "model/samd/utils.py", "samd.utils"
)


def verify(tree, tokens, q, p, rng, temperature=1.0):
  """Verify a tree; the logits are those that give p at this temperature."""
  rows, nodes, texts = published.candidates(tree, tokens)
  best, length, law = samd.eval_posterior(
    (temperature * p.log())[nodes],
    texts,
    samd.SamdGenerationConfig(greedy=False, temperature=temperature),
  )
  return rows[best][1 : int(length)], torch.multinomial(law, 1)


WRONG = {"T = 0.7": "the bonus token is drawn without the temperature"}
PROGRAMS = {
  "T = 1": verify,
  "T = 0.7": functools.partial(verify, temperature=0.7),
}
