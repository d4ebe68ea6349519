"""Give gpt-fast's `speculative_decode` two models that write by given laws.

The function joins drafted tokens of one axis, and stops where they have a
second axis for the batch. So the draft's logits have none here.
"""

import torch

from examples import published

REPOSITORY = "pytorch-labs/gpt-fast"
SYSTEM = "gpt-fast"
SOURCE = "generate.py: `speculative_decode`"
SETTINGS = {"vocabulary": 3, "cases": 8, "arrays": "torch"}
gpt_fast = published.load(
  published.checkout(REPOSITORY) / "generate.py", "gpt_fast_generate"
)


def cycle(p, q, context, rng):
  """Draft two tokens, and verify them."""

  def model(law):
    text = [*context]

    def logits(tokens, positions):
      rows = []
      for token, at in zip(tokens.ravel(), positions, strict=True):
        text[int(at) :] = [int(token)]
        rows.append(law(text).log())
      return torch.stack(rows)

    return logits

  target, draft = model(p), model(q)
  return gpt_fast.speculative_decode(
    lambda *x: target(*x)[None],
    lambda *x: draft(*x).T,
    torch.tensor(context[-1]),
    len(context) - 1,
    speculate_k=2,
  )


PROGRAMS = {"": cycle}
