"""Give the rejection sampler of vLLM's engine V0 a chain of drafts.

It is in PyTorch and in float32. vLLM has it until 0.8.
"""

import torch

from examples import published

REPOSITORY = "vllm-project/vllm"
SYSTEM = "vLLM, engine V0"
SOURCE = "vllm/model_executor/layers/rejection_sampler.py: `RejectionSampler`"
SETTINGS = {
  "tree": "chain:2",
  "cases": 8,
  "arrays": "torch",
  "tolerance": 1e-6,
}
layers = published.checkout(REPOSITORY) / "vllm/model_executor/layers"
PACKAGE = "vllm.model_executor.layers"
for name in ("spec_decode_base_sampler", "rejection_sampler"):
  vllm = published.load(layers / f"{name}.py", f"{PACKAGE}.{name}")


def verify(tree, tokens, q, p, rng):
  """Verify a chain; the bonus token comes from the caller."""
  sampler = vllm.RejectionSampler(use_flashinfer=False)
  sampler.init_tensors("cpu")
  texts = sampler(
    p[None].float(),
    torch.multinomial(p[-1:], 1),
    q[None, :-1].float(),
    torch.tensor([tokens[1:]]),
  )
  given = texts[0][texts[0] >= 0]
  return range(1, len(given)), given[-1]


PROGRAMS = {"": verify}
