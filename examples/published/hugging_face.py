"""Give `_speculative_sampling` of transformers a chain of drafts.

With an `assistant_ensemble_weight` below 1 the drafts are verified against a
mixture of both distributions, which is lossy by design.
"""

import functools

import torch
import transformers
from transformers.generation.utils import _speculative_sampling

REPOSITORY = "huggingface/transformers"
SYSTEM = "transformers"
VERSION = transformers.__version__
SOURCE = "generation/utils.py: `_speculative_sampling`"
SETTINGS = {"tree": "chain:2", "cases": 8, "arrays": "torch"}


def verify(tree, tokens, q, p, rng, weight=None):
  """Verify a chain."""
  drafted = torch.tensor([tokens[1:]])
  texts, accepted = _speculative_sampling(
    drafted, q[None, :-1].log(), len(tokens) - 1, p[None].log(), weight
  )
  return range(1, int(accepted) + 1), texts[0, -1]


WRONG = {"ensemble weight 0.9": "a mixture with the draft, lossy by design"}
PROGRAMS = {
  "": verify,
  "ensemble weight 0.9": functools.partial(verify, weight=0.9),
}
