"""Give Spec-Bench's REST a tree of deterministic drafts.

REST retrieves drafts. It draws a token at each node of each path, and takes the
path along which the most drafts are equal to these.
"""

import torch

from examples import published

REPOSITORY = "hemingkx/Spec-Bench"
SYSTEM = "Spec-Bench's REST"
SOURCE = "model/rest/rest/model/utils.py: `evaluate_posterior`"
SETTINGS = {
  "tree": "kary:2x2",
  "cases": 8,
  "proposal": "top_k",
  "arrays": "torch",
}
WRONG = {"": "after a rejection it draws again, not from the residual"}
TOP_P = 1 - 1e-12  # keeps all tokens; the function refuses 1
rest = published.load(
  published.checkout(REPOSITORY) / "model/rest/rest/model/utils.py",
  "spec_bench_rest",
)


def verify(tree, tokens, q, p, rng):
  """Verify a tree; the next cycle draws its first token from the last row."""
  rows, nodes, texts = published.candidates(tree, tokens)
  best, accepted = rest.evaluate_posterior(p.log()[nodes], texts, 1.0, TOP_P)
  path = rows[best][: int(accepted) + 1]
  return path[1:], torch.multinomial(p[path[-1]], 1)


PROGRAMS = {"": verify}
