"""GGUF files give the same model as transformers' reader."""

import os
import pathlib

import numpy as np
import pytest
from tokenizers import pre_tokenizers

import tv_jax
from tests.lib import checkpoints, gguf_files
from tests.lib.gguf_files import TEXTS
from tv_jax import models

pytestmark = pytest.mark.parity


def theirs(path):
  """The model that transformers reads from a file, in float32.

  It equals `from_pretrained(.., gguf_file=..)`, which needs accelerate.
  """
  import transformers
  from transformers.modeling_gguf_pytorch_utils import load_gguf_checkpoint

  config = transformers.AutoConfig.from_pretrained(
    path.parent, gguf_file=path.name
  )
  model = transformers.AutoModelForCausalLM.from_config(
    config, attn_implementation="eager"
  )
  found = load_gguf_checkpoint(str(path), True, model)["tensors"]
  missing, unknown = model.load_state_dict(found, strict=False)
  assert missing == ["lm_head.weight"] * config.tie_word_embeddings
  assert not unknown
  model.tie_weights()
  return model.float().eval()


@pytest.mark.parametrize(
  "changes",
  [
    {},
    {"model_type": "qwen2"},
    # transformers reads only one head_dim for Qwen3.
    {"model_type": "qwen3", "head_dim": 128, "tie_word_embeddings": True},
  ],
  ids=["llama", "qwen2", "qwen3"],
)
def test_logits_are_those_of_transformers(tmp_path, changes):
  config = checkpoints.tiny(
    **{"hidden_size": 64, "intermediate_size": 96, "head_dim": 16} | changes
  )
  told = gguf_files.of_tokenizer(
    {
      "model": {"vocab": {chr(65 + i): i for i in range(48)}, "merges": []},
      "added_tokens": [],
    },
    pre="gpt-2",
    bos_token_id=1,
    eos_token_id=2,
  )
  path = gguf_files.save(
    tmp_path / "x.gguf",
    checkpoints.ours(config),
    gguf_files.TYPES.Q8_0,
    **told,
  )
  tokens = checkpoints.tokens(2, 12, config.vocab_size)
  wanted = checkpoints.logits(theirs(path), tokens)
  ours = models.load(path, "float32").logits(tokens)
  assert checkpoints.error(ours, wanted) < 1e-5


@pytest.mark.smollm2
def test_smollm2_is_that_of_transformers():
  import transformers

  path = pathlib.Path(os.environ["SMOLLM2_GGUF"])
  pair = tv_jax.load(path)
  own = pair.tokenizer
  other = transformers.AutoTokenizer.from_pretrained(
    path.parent, gguf_file=path.name
  )
  turns = [{"role": "user", "content": TEXTS[1]}]
  prompts = [
    one.apply_chat_template(turns, tokenize=False, add_generation_prompt=True)
    for one in (own, other)
  ]
  assert prompts[0] == prompts[1]
  # It does not read how the file's model cuts texts: digits one by one.
  other.backend_tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
    [
      pre_tokenizers.Digits(individual_digits=True),
      pre_tokenizers.ByteLevel(add_prefix_space=False),
    ]
  )
  for text in (*TEXTS, *prompts):
    ids = own(text).input_ids
    assert ids == other(text).input_ids
    assert own.decode(ids) == text
  assert pair.ends == (own.eos_token_id,) == (other.eos_token_id,)
  tokens = np.asarray([own(prompts[0]).input_ids], np.int32)
  wanted = checkpoints.logits(theirs(path), tokens)
  assert checkpoints.error(pair.target.logits(tokens), wanted) < 1e-5
