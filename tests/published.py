"""Tiny random checkpoints, laid out file by file as real repositories are.

Shapes are small and weights random; the names of files, tensors and settings,
and how the tokenizers are stored, are those of the repositories.
"""

import io
import json

import numpy as np
import sentencepiece
import tokenizers
from safetensors.numpy import save_file
from tokenizers import decoders, pre_tokenizers, processors

ENDS = ("<|end_of_text|>", "<|eom_id|>", "<|eot_id|>")
# In the repositories' order; ids follow those of the merges.
SPECIAL = (
  "<|begin_of_text|>",
  "<|end_of_text|>",
  "<|start_header_id|>",
  "<|end_header_id|>",
  "<|eom_id|>",
  "<|eot_id|>",
)
# Of the published one, what a conversation without tools and documents sees.
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
"""


def llama3_8b(directory, texts, **changes):
  """As meta-llama/Llama-3.1-8B-Instruct: four shards, many end tokens."""
  directory.mkdir()
  numbers = _llama3_tokenizer(directory, texts)
  ends = [numbers[name] for name in ENDS]
  first = numbers["<|begin_of_text|>"]
  raw = _config(
    attention_bias=False,
    bos_token_id=first,
    eos_token_id=ends,
    max_position_embeddings=131072,
    mlp_bias=False,
    num_key_value_heads=1,
    rms_norm_eps=1e-5,
    rope_scaling={
      "factor": 8.0,
      "low_freq_factor": 1.0,
      "high_freq_factor": 4.0,
      "original_max_position_embeddings": 8192,
      "rope_type": "llama3",
    },
    rope_theta=500000.0,
    torch_dtype="bfloat16",
    vocab_size=len(numbers),
  )
  _write(directory, raw | changes, _llama(raw | changes), shards=4)
  _json(
    directory / "generation_config.json",
    bos_token_id=first,
    do_sample=True,
    eos_token_id=ends,
    temperature=0.6,
    top_p=0.9,
  )


def llama3_1b(directory, texts, **changes):
  """As meta-llama/Llama-3.2-1B-Instruct: tied, one file, `head_dim` given."""
  llama3_8b(directory, texts)
  for path in directory.glob("model*"):
    path.unlink()
  raw = json.loads((directory / "config.json").read_text())
  raw["rope_scaling"]["factor"] = 32.0
  raw |= {"head_dim": 8, "num_hidden_layers": 1, "tie_word_embeddings": True}
  _write(directory, raw | changes, _llama(raw | changes))


def qwen2_coder(directory, texts, **changes):
  """As Qwen/Qwen2.5-Coder-*-Instruct, but for its tokenizer: Llama 3's.

  Two sizes share their tokens, tie the embedding, and have rows of it that no
  token has.
  """
  directory.mkdir()
  numbers = _llama3_tokenizer(directory, texts)
  first, last = numbers["<|begin_of_text|>"], numbers["<|eot_id|>"]
  raw = _config(
    architectures=["Qwen2ForCausalLM"],
    attention_dropout=0.0,
    bos_token_id=first,
    eos_token_id=last,
    initializer_range=0.02,
    max_position_embeddings=32768,
    max_window_layers=2,
    model_type="qwen2",
    num_key_value_heads=1,
    rms_norm_eps=1e-6,
    rope_theta=1000000.0,
    sliding_window=131072,
    tie_word_embeddings=True,
    torch_dtype="bfloat16",
    use_sliding_window=False,
    vocab_size=len(numbers) + 16,
  )
  raw |= changes
  tensors = _llama(raw)
  for i in range(raw["num_hidden_layers"]):
    for x in "qkv":
      name = f"model.layers.{i}.self_attn.{x}_proj"
      tensors[f"{name}.bias"] = _random(len(tensors[f"{name}.weight"]))
  _write(directory, raw, tensors)
  _json(
    directory / "generation_config.json",
    bos_token_id=first,
    do_sample=True,
    eos_token_id=[last, numbers["<|end_of_text|>"]],
    repetition_penalty=1.1,
    temperature=0.7,
    top_k=20,
    top_p=0.8,
  )


def _legacy(directory, texts, settings, generation=(), shards=1, extra=()):
  """A converted checkpoint with a sentencepiece tokenizer."""
  directory.mkdir()
  raw = _config(vocab_size=_sentencepiece(directory, texts), **settings)
  _write(directory, raw, _llama(raw) | dict(extra), shards)
  ends = {"bos_token_id": 1, "eos_token_id": 2, "pad_token_id": 0}
  _json(directory / "generation_config.json", **ends | dict(generation))


def llama2_7b(directory, texts):
  """As meta-llama/Llama-2-7b-hf, but for tokenizer.json: old rotations."""
  settings = {
    "max_position_embeddings": 4096,
    "num_key_value_heads": 2,
    "rms_norm_eps": 1e-5,
    "rope_scaling": None,
  }
  extra = {
    f"model.layers.{i}.self_attn.rotary_emb.inv_freq": np.ones(4, np.float32)
    for i in range(2)
  }
  own = {"do_sample": True, "temperature": 0.6, "top_p": 0.9}
  _legacy(directory, texts, settings, own, 2, extra)


def llama_68m(directory, texts, **changes):
  """As JackFram/llama-68m, converted: end tokens of its own, half the room."""
  settings = {
    "bos_token_id": 0,
    "num_hidden_layers": 1,
    "pad_token_id": 1,
    "rms_norm_eps": 1e-6,
    "torch_dtype": "float32",
  }
  own = {"bos_token_id": 0, "pad_token_id": 1}
  _legacy(directory, texts, settings | changes, own)


def vicuna_7b(directory, texts, **changes):
  """As lmsys/vicuna-7b-v1.3, converted."""
  settings = {"pad_token_id": 0, "rms_norm_eps": 1e-6}
  own = {"_from_model_config": True}
  _legacy(directory, texts, settings | changes, own, shards=2)


def eagle_vicuna(directory, target, **changes):
  """As yuhuili/EAGLE-Vicuna-7B-v1.3, converted: no word of its bias."""
  directory.mkdir()
  raw = json.loads((target / "config.json").read_text())
  raw |= {"num_hidden_layers": 1} | changes
  E = raw["hidden_size"]
  tensors = {
    name.removeprefix("model."): value
    for name, value in _llama(raw).items()
    if name == "model.embed_tokens.weight"
    or ("layers.0." in name and "input_layernorm" not in name)
  }
  tensors["fc.weight"] = _random(E, 2 * E)
  tensors["fc.bias"] = _random(E)
  _write(directory, raw, tensors)


def eagle3_llama3(directory, target, **changes):
  """As yuhuili/EAGLE3-LLaMA3.1-Instruct-8B, converted: few tokens known."""
  directory.mkdir()
  raw = json.loads((target / "config.json").read_text())
  V, E, U = raw["vocab_size"], raw["hidden_size"], 700
  raw = _config(
    bos_token_id=raw["bos_token_id"],
    draft_vocab_size=U,
    eos_token_id=raw["eos_token_id"],
    max_position_embeddings=2048,
    num_hidden_layers=1,
    num_key_value_heads=raw["num_key_value_heads"],
    pad_token_id=0,
    rms_norm_eps=1e-5,
    vocab_size=V,
  )
  known = np.sort(np.random.default_rng(0).permutation(V)[:U])
  tensors = {
    f"midlayer.{name.removeprefix('model.layers.0.')}": value
    for name, value in _llama(raw).items()
    if "layers.0." in name
  }
  for x in "qkv":
    name = f"midlayer.self_attn.{x}_proj.weight"
    tensors[name] = _random(len(tensors[name]), 2 * E)
  tensors |= {
    "midlayer.hidden_norm.weight": np.ones(E, np.float32),
    "fc.weight": _random(E, 3 * E),
    "norm.weight": np.ones(E, np.float32),
    "lm_head.weight": _random(U, E),
    "d2t": known - np.arange(U),
    "t2d": np.isin(np.arange(V), known),
  }
  _write(directory, raw | changes, tensors)


def _config(**settings):
  """What all of the configurations hold, and `settings`."""
  return {
    "architectures": ["LlamaForCausalLM"],
    "bos_token_id": 1,
    "eos_token_id": 2,
    "hidden_act": "silu",
    "hidden_size": 16,
    "intermediate_size": 24,
    "model_type": "llama",
    "num_attention_heads": 2,
    "num_hidden_layers": 2,
    "tie_word_embeddings": False,
    "torch_dtype": "float16",
  } | settings


def _random(*shape):
  """Of a seed that the shape gives: a checkpoint is always the same."""
  rng = np.random.default_rng(shape)
  return rng.normal(0, 0.3, shape).astype(np.float32)


def _llama(raw) -> dict:
  """Tensors by their published names."""
  V, E, F = (raw[k] for k in ("vocab_size", "hidden_size", "intermediate_size"))
  channels = E // raw["num_attention_heads"]
  keys = channels * raw.get("num_key_value_heads", raw["num_attention_heads"])
  tensors = {"model.embed_tokens.weight": _random(V, E)}
  for i in range(raw["num_hidden_layers"]):
    layer = {
      "self_attn.q_proj": _random(E, E),
      "self_attn.k_proj": _random(keys, E),
      "self_attn.v_proj": _random(keys, E),
      "self_attn.o_proj": _random(E, E),
      "mlp.gate_proj": _random(F, E),
      "mlp.up_proj": _random(F, E),
      "mlp.down_proj": _random(E, F),
      "input_layernorm": np.ones(E, np.float32),
      "post_attention_layernorm": np.ones(E, np.float32),
    }
    tensors |= {f"model.layers.{i}.{k}.weight": v for k, v in layer.items()}
  tensors["model.norm.weight"] = np.ones(E, np.float32)
  if not raw["tie_word_embeddings"]:
    tensors["lm_head.weight"] = _random(V, E)
  return tensors


def _write(directory, raw, tensors, shards=1):
  """config.json, and weights in one file, or in several with their index."""
  _json(directory / "config.json", **raw)
  tensors = {
    k: v.astype(raw["torch_dtype"]) if v.dtype == np.float32 else v
    for k, v in tensors.items()
  }
  if shards == 1:
    save_file(tensors, directory / "model.safetensors", {"format": "pt"})
    return
  names, places = [*tensors], {}
  for i in range(shards):
    file = f"model-{i + 1:05}-of-{shards:05}.safetensors"
    own = {name: tensors[name] for name in names[i::shards]}
    save_file(own, directory / file, {"format": "pt"})
    places |= dict.fromkeys(own, file)
  _json(
    directory / "model.safetensors.index.json",
    metadata={"total_size": sum(v.nbytes for v in tensors.values())},
    weight_map=places,
  )


def _json(path, **values):
  path.write_text(json.dumps(values, indent=2) + "\n")


def _llama3_tokenizer(directory, texts, more="") -> dict[str, int]:
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
    chat_template=CHAT + more,
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
  flags = dict.fromkeys(
    ("lstrip", "normalized", "rstrip", "single_word"), False
  )
  return {"content": content} | flags | more
