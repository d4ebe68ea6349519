"""Tiny random checkpoints with the configurations and tokenizers of real ones.

Shapes are small and weights random. Settings and tokenizer files follow the
published repositories, except that Qwen uses Llama 3's tokenizer here.
"""

import io
import json

import sentencepiece
import tokenizers
from tokenizers import decoders, pre_tokenizers, processors

from tests.lib import checkpoints
from tv_jax import models
from tv_jax.models import config as configs

ENDS = ("<|end_of_text|>", "<|eom_id|>", "<|eot_id|>")
# In the repositories' order; their ids come after the merges' ids.
SPECIAL = (
  "<|begin_of_text|>",
  "<|end_of_text|>",
  "<|start_header_id|>",
  "<|end_header_id|>",
  "<|eom_id|>",
  "<|eot_id|>",
)
# The parts of Llama 3's template for a conversation without tools and
# documents, and the parts that Qwen3's template adds.
CHAT = """{{- bos_token }}
{%- if not date_string is defined %}
    {%- set date_string = strftime_now("%d %b %Y") %}
{%- endif %}
{{- "<|start_header_id|>system<|end_header_id|>\\n\\n" }}
{{- "Today Date: " + date_string + "\\n\\n<|eot_id|>" }}
{%- for message in messages %}
    {{- '<|start_header_id|>' + message['role'] + '<|end_header_id|>\\n\\n'
        + message['content'] | trim + '<|eot_id|>' }}
{%- endfor %}
{%- if add_generation_prompt %}
    {{- '<|start_header_id|>assistant<|end_header_id|>\\n\\n' }}
{%- endif %}
{%- if enable_thinking is defined and enable_thinking is false %}
    {{- '<think>\\n\\n</think>\\n\\n' }}
{%- endif %}
"""

# The rest of config.json, except shapes and tokens, by repository.
LLAMA3 = {
  "attention_bias": False,
  "max_position_embeddings": 131072,
  "mlp_bias": False,
  "rope_scaling": {
    "factor": 8.0,
    "low_freq_factor": 1.0,
    "high_freq_factor": 4.0,
    "original_max_position_embeddings": 8192,
    "rope_type": "llama3",
  },
  "rope_theta": 500000.0,
  "torch_dtype": "bfloat16",
}
# Its embedding has rows without a token.
QWEN2_CODER = {
  "architectures": ["Qwen2ForCausalLM"],
  "attention_dropout": 0.0,
  "max_window_layers": 2,
  "model_type": "qwen2",
  "rope_theta": 1000000,
  "sliding_window": 131072,
  "tie_word_embeddings": True,
  "torch_dtype": "bfloat16",
  "use_sliding_window": False,
}
# As of Qwen3-0.6B, whole.
QWEN3 = {
  "architectures": ["Qwen3ForCausalLM"],
  "attention_bias": False,
  "attention_dropout": 0.0,
  "bos_token_id": 151643,
  "eos_token_id": 151645,
  "head_dim": 128,
  "hidden_act": "silu",
  "hidden_size": 1024,
  "initializer_range": 0.02,
  "intermediate_size": 3072,
  "max_position_embeddings": 40960,
  "max_window_layers": 28,
  "model_type": "qwen3",
  "num_attention_heads": 16,
  "num_hidden_layers": 28,
  "num_key_value_heads": 8,
  "rms_norm_eps": 1e-06,
  "rope_scaling": None,
  "rope_theta": 1000000,
  "sliding_window": None,
  "tie_word_embeddings": True,
  "torch_dtype": "bfloat16",
  "transformers_version": "4.51.0",
  "use_cache": True,
  "use_sliding_window": False,
  "vocab_size": 151936,
}


def merged(directory, texts, settings, unused=0, **changes):
  """A checkpoint with a byte-level BPE tokenizer and many end tokens."""
  directory.mkdir()
  numbers = tokenizer(directory, texts)
  ends = [numbers[name] for name in ENDS]
  tokens = {
    "bos_token_id": numbers[SPECIAL[0]],
    "eos_token_id": ends,
    "vocab_size": len(numbers) + unused,
  }
  _write(directory, settings | tokens, changes)
  generation = {"do_sample": True, "eos_token_id": ends, "top_p": 0.9}
  _json(directory / "generation_config.json", **generation)


def legacy(directory, texts, **changes):
  """As Llama-2, Llama-68M and Vicuna, converted, with sentencepiece."""
  directory.mkdir()
  size = _sentencepiece(directory, texts)
  tokens = {"bos_token_id": 1, "eos_token_id": 2, "pad_token_id": 0}
  _write(directory, tokens | {"vocab_size": size}, changes)
  _json(directory / "generation_config.json", **tokens)


def _write(directory, settings, changes):
  """Writes config.json with a small shape, and weights of that."""
  raw = {
    "architectures": ["LlamaForCausalLM"],
    "hidden_act": "silu",
    "initializer_range": 0.02,
    "max_position_embeddings": 4096,
    "model_type": "llama",
    "rms_norm_eps": 1e-5,
    "tie_word_embeddings": False,
    "torch_dtype": "float16",
  } | settings
  raw |= {
    "hidden_size": 16,
    "intermediate_size": 24,
    "num_attention_heads": 2,
    "num_hidden_layers": 2,
    "num_key_value_heads": 1,
  } | changes
  config = configs.from_dict(raw, "published")
  models.save(directory, checkpoints.ours(config))
  _json(directory / "config.json", **raw)


def _json(path, **values):
  path.write_text(json.dumps(values, indent=2) + "\n")


def tokenizer(directory, texts) -> dict[str, int]:
  """Bytes; special tokens after all others."""
  model = tokenizers.Tokenizer(tokenizers.models.BPE(ignore_merges=True))
  model.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
  model.decoder = decoders.ByteLevel()
  trainer = tokenizers.trainers.BpeTrainer(
    vocab_size=1500,
    initial_alphabet=sorted(pre_tokenizers.ByteLevel.alphabet()),
    show_progress=False,
  )
  model.train_from_iterator(texts, trainer)
  model.add_special_tokens([*SPECIAL])
  numbers = model.get_vocab()
  first = SPECIAL[0]
  model.post_processor = processors.Sequence(
    [
      processors.ByteLevel(trim_offsets=False),
      processors.TemplateProcessing(
        single=f"{first} $A", special_tokens=[(first, numbers[first])]
      ),
    ]
  )
  model.save(str(directory / "tokenizer.json"))
  _json(
    directory / "tokenizer_config.json",
    added_tokens_decoder={
      str(numbers[name]): _token(name, special=True) for name in SPECIAL
    },
    bos_token=first,
    chat_template=CHAT,
    eos_token="<|eot_id|>",
    tokenizer_class="PreTrainedTokenizerFast",
  )
  return numbers


def _sentencepiece(directory, texts) -> int:
  """tokenizer.model and how the slow tokenizer reads it; its size."""
  out = io.BytesIO()
  sentencepiece.SentencePieceTrainer.train(
    sentence_iterator=(line for text in texts for line in text.split("\n")),
    model_writer=out,
    model_type="bpe",
    vocab_size=1500,
    hard_vocab_limit=False,
    byte_fallback=True,
    split_digits=True,
    normalization_rule_name="identity",
    remove_extra_whitespaces=False,
    max_sentence_length=1 << 16,
    pad_id=-1,
    minloglevel=2,
  )
  (directory / "tokenizer.model").write_bytes(out.getvalue())
  marked = {"__type": "AddedToken"}
  _json(
    directory / "tokenizer_config.json",
    add_bos_token=True,
    add_eos_token=False,
    bos_token=marked | _token("<s>"),
    eos_token=marked | _token("</s>"),
    tokenizer_class="LlamaTokenizer",
    unk_token=marked | _token("<unk>"),
  )
  model = sentencepiece.SentencePieceProcessor(model_proto=out.getvalue())
  return model.get_piece_size()


def _token(content, **more):
  flags = "lstrip", "normalized", "rstrip", "single_word"
  return {"content": content} | dict.fromkeys(flags, False) | more
