"""Give transformers' whole assisted generation two models that write by laws.

Three tokens are generated from two drafts at a time, in as many cycles as that
takes. The models read the whole text, and keep nothing in the cache.
"""

import torch
import transformers
from transformers import GenerationConfig, GenerationMixin, PreTrainedModel
from transformers.modeling_outputs import CausalLMOutputWithPast

REPOSITORY = "huggingface/transformers"
SYSTEM = "transformers"
VERSION = transformers.__version__
SOURCE = "generation/utils.py: `generate(assistant_model=..)`"
SETTINGS = {
  "vocabulary": 3,
  "cases": 8,
  "arrays": "torch",
  "tolerance": 1e-6,
}
CONFIG = transformers.LlamaConfig(vocab_size=3)
OPTIONS = {"do_sample": True, "top_k": 0, "pad_token_id": 0}


class Writer(PreTrainedModel, GenerationMixin):
  """A model that writes by a law."""

  device = torch.device("cpu")

  def __init__(self, law, start):
    """Keep the law of the token after a prefix."""
    super().__init__(CONFIG)
    self.generation_config = GenerationConfig(num_assistant_tokens=2, **OPTIONS)
    self.law, self.start = law, start

  def prepare_inputs_for_generation(self, input_ids, **kwargs):
    """Return the whole text, whatever the cache holds."""
    return {"input_ids": input_ids, **kwargs}

  def forward(self, input_ids, past_key_values=None, **kwargs):
    """Return the logits after each token, the same within the context."""
    text = input_ids[0].tolist()
    ends = [max(end, self.start) for end in range(1, len(text) + 1)]
    logits = torch.stack([self.law(text[:end]).log() for end in ends])[None]
    return CausalLMOutputWithPast(
      logits=logits, past_key_values=past_key_values
    )


def cycle(p, q, context, rng):
  """Generate three tokens."""
  target, draft = (Writer(law, len(context)) for law in (p, q))
  settings = GenerationConfig(max_new_tokens=3, **OPTIONS)
  text = torch.tensor([context])
  output = target.generate(
    text, assistant_model=draft, generation_config=settings
  )
  return output[0, len(context) :].tolist()


PROGRAMS = {"": cycle}
