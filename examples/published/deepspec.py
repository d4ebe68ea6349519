"""Give DeepSpec's `verify_draft_tokens` a chain of drafts, in float32."""

import sys
from types import SimpleNamespace

import torch

from examples import published

REPOSITORY = "deepseek-ai/DeepSpec"
SYSTEM = "DeepSpec"
SOURCE = "deepspec/eval/base_evaluator.py: `verify_draft_tokens`"
SETTINGS = {
  "tree": "chain:2",
  "cases": 8,
  "arrays": "torch",
  "tolerance": 1e-6,
}
folder = published.checkout(REPOSITORY)
sys.path.append(str(folder))
deepspec = published.load(
  folder / "deepspec/eval/base_evaluator.py", "deepspec_evaluator"
)


def verify(tree, tokens, q, p, rng):
  """Verify a chain."""
  count, logits = len(tokens) - 1, p[None].log()
  result = deepspec.verify_draft_tokens(
    target_model=lambda **_: SimpleNamespace(logits=logits),
    proposal=deepspec.DraftProposal(
      draft_token_count=count,
      verify_input_ids=torch.tensor([[0, *tokens[1:]]]),
      draft_probs=q[None, :-1].float(),
    ),
    position_ids=torch.arange(count + 1)[None],
    start=0,
    past_key_values_target=None,
    temperature=1.0,
    max_proposal_tokens=count,
  )
  return range(1, result.accepted_draft_tokens + 1), result.next_token[0]


PROGRAMS = {"": verify}
