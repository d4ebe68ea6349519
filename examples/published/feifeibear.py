"""Give LLMSpeculativeSampling's loops two models that write by given laws.

Its `sample` stops where it draws token 0, so the program's tokens begin at 1.
"""

import functools
import importlib
import sys
from types import SimpleNamespace
from unittest import mock

import torch

from examples import published

REPOSITORY = "feifeibear/LLMSpeculativeSampling"
SYSTEM = "LLMSpeculativeSampling"
SOURCE = "sampling/speculative_sampling.py"
SETTINGS = {"vocabulary": 3, "cases": 8, "arrays": "torch"}
sys.path.append(str(published.checkout(REPOSITORY)))
sampling = importlib.import_module("sampling.speculative_sampling")
vars(sampling)["tqdm"] = mock.MagicMock()  # a progress bar for each run


class Writer:
  """A model that writes by a law; its cache is the text."""

  device = "cpu"

  def __init__(self, law, context):
    """Keep the law of the token after a prefix."""
    self.law, self.start = law, len(context)

  def __call__(self, tokens, past_key_values=(), use_cache=True):
    """Return the logits after each token; rows in the context repeat one."""
    old = past_key_values[0][0].ravel().tolist() if past_key_values else []
    text = torch.tensor([*map(int, old), *tokens[0].tolist()])
    rows = []
    for end in range(len(old) + 1, len(text) + 1):
      law = self.law((text[: max(end, self.start)] - 1).tolist())
      rows.append(torch.cat([torch.zeros(1, dtype=law.dtype), law]).log())
    cache = text[None, None, :, None]
    return SimpleNamespace(
      logits=torch.stack(rows)[None], past_key_values=[(cache, cache)]
    )


def cycle(p, q, context, rng, loop=sampling.speculative_sampling):
  """Draft two tokens and verify them; the loop ends after one cycle."""
  text = torch.tensor([context]) + 1
  models = Writer(q, context), Writer(p, context)
  output = loop(text, *models, max_len=1, gamma=2)
  return (output[0, len(context) :] - 1).tolist()


PROGRAMS = {
  "`speculative_sampling`": cycle,
  "`.._v2`": functools.partial(cycle, loop=sampling.speculative_sampling_v2),
}
