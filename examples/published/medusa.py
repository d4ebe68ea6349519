"""Give Medusa's `evaluate_posterior` a tree of its deterministic drafts.

Both of its rules accept more than a lossless rule may, by design: typical
acceptance by a threshold, and nucleus sampling at each node of each path.
"""

from examples import published

REPOSITORY = "FasterDecoding/Medusa"
SYSTEM = "Medusa"
SOURCE = "medusa/model/utils.py: `evaluate_posterior`"
SETTINGS = {
  "tree": "kary:2x2",
  "cases": 8,
  "proposal": "top_k",
  "arrays": "torch",
}
medusa = published.load(
  published.checkout(REPOSITORY) / "medusa/model/utils.py", "medusa_utils"
)


def typical(tree, tokens, q, p, rng):
  """Verify a tree by typical acceptance, which also draws the next token."""
  rows, nodes, texts = published.candidates(tree, tokens)
  logits = p.log()[nodes]
  best, accepted = medusa.evaluate_posterior(logits, texts, temperature=1.0)
  last = logits[best, accepted][None]
  token = medusa.get_typical_one_token(last, 1.0, 0.3, 0.09)
  return rows[best][1 : int(accepted) + 1], token


def nucleus(tree, tokens, q, p, rng):
  """Verify a tree by nucleus sampling with a top-p of 1."""
  rows, nodes, texts = published.candidates(tree, tokens)
  logits = p.log()[nodes]
  best, accepted = medusa.evaluate_posterior(
    logits, texts, temperature=1.0, top_p=1.0, sampling="nucleus"
  )
  token = medusa.get_nucleus_one_token(logits[best, accepted][None], 1.0, 1.0)
  return rows[best][1 : int(accepted) + 1], token


PROGRAMS = {"typical": typical, "nucleus, top-p 1": nucleus}
WRONG = {
  "typical": "a threshold in place of a coin, lossy by design",
  "nucleus, top-p 1": (
    "after a rejection it draws again, not from the residual; each path draws"
    " for itself"
  ),
}
