"""GGUF files, written as llama.cpp's converter writes them."""

import json

import gguf
import numpy as np
from flax.traverse_util import flatten_dict

from tv_jax import models
from tv_jax.io.reading import BUNDLED
from tv_jax.models import parameters, quantised, rope

TYPES = gguf.GGMLQuantizationType
TEXTS = (
  "",
  "Hello, world!  It's 2026, and   3.14159 is less than 22/7.",
  " leading and trailing \n\n\tspaces\r\n ",
  "Über größere Füße: ÄÖÜ äöü ß",
  "👩‍👩‍👧 🙂🙃 日本語 ½ Ⅷ ² e\u0301 \u00a0",
  "def f(x):\n    return x['a'] + \"it'll\"\n",
)
_STEMS = {
  "model.embed_tokens": "token_embd",
  "model.norm": "output_norm",
  "lm_head": "output",
  "input_layernorm": "attn_norm",
  "post_attention_layernorm": "ffn_norm",
  "self_attn.o_proj": "attn_output",
} | {f"self_attn.{x}_proj": f"attn_{x}" for x in "qkv"}
_STEMS |= {f"self_attn.{x}_norm": f"attn_{x}_norm" for x in "qk"}
_STEMS |= {f"mlp.{x}_proj": f"ffn_{x}" for x in ("gate", "up", "down")}


def own_name(name):
  """Returns the GGUF name of a Hugging Face tensor."""
  stem, _, suffix = name.rpartition(".")
  if not stem.startswith("model.layers."):
    return f"{_STEMS[stem]}.{suffix}"
  _, _, layer, stem = stem.split(".", 3)
  return f"blk.{layer}.{_STEMS[stem]}.{suffix}"


def interleaved(value, heads):
  """Puts the two parts of each of a head's channels side by side."""
  halves = value.reshape(heads, 2, -1, value.shape[1])
  return halves.swapaxes(1, 2).reshape(value.shape)


def tensors(model):
  """A model's tensors, by Hugging Face's names."""
  found = {}
  values = flatten_dict(quantised.dequantised(model.params))
  for path, weight in parameters.stored(model.module).items():
    found |= weight.split(np.asarray(values[path], np.float32))
  return found


def metadata(config):
  """A file's metadata about the model, without the tokenizer's."""
  kind = config.model_type
  own = {
    "block_count": config.num_hidden_layers,
    "context_length": config.max_position_embeddings,
    "embedding_length": config.hidden_size,
    "feed_forward_length": config.intermediate_size,
    "attention.head_count": config.num_attention_heads,
    "attention.head_count_kv": config.num_key_value_heads,
    "attention.layer_norm_rms_epsilon": config.rms_norm_eps,
    "attention.key_length": config.head_dim,
    "attention.value_length": config.head_dim,
    "rope.freq_base": float(config.rope_theta),
    "rope.dimension_count": config.head_dim,
    "vocab_size": config.vocab_size,
  }
  if isinstance(config.rope_scaling, rope.LinearScaling):
    own["rope.scaling.type"] = "linear"
    own["rope.scaling.factor"] = config.rope_scaling.factor
  return {f"{kind}.{name}": value for name, value in own.items()}


def of_tokenizer(raw, **own):
  """What a file says of the tokens of a tokenizer.json that merges bytes."""
  tokens = sorted(raw["model"]["vocab"], key=raw["model"]["vocab"].get)
  special = {one["content"] for one in raw["added_tokens"]}
  merges = raw["model"]["merges"]
  return {
    "tokenizer.ggml.model": "gpt2",
    "tokenizer.ggml.tokens": tokens,
    "tokenizer.ggml.token_type": [3 if x in special else 1 for x in tokens],
    "tokenizer.ggml.merges": [
      x if isinstance(x, str) else " ".join(x) for x in merges
    ],
  } | {f"tokenizer.ggml.{name}": value for name, value in own.items()}


def _add(writer, name, value):
  match value:
    case bool():
      writer.add_bool(name, value)
    case int():
      writer.add_uint32(name, value)
    case float():
      writer.add_float32(name, value)
    case str():
      writer.add_string(name, value)
    case _:
      writer.add_array(name, value)


def write(path, architecture, values, parts):
  """Writes metadata and tensors; each is an array, or bytes and their type."""
  writer = gguf.GGUFWriter(path, architecture)
  for name, value in values.items():
    _add(writer, name, value)
  for name, part in parts.items():
    value, kind = part if isinstance(part, tuple) else (part, None)
    writer.add_tensor(name, value, raw_dtype=kind)
  writer.write_header_to_file()
  writer.write_kv_data_to_file()
  writer.write_tensors_to_file()
  writer.close()
  return path


def blocks(kind, shape, seed=0):
  """Random blocks of a type of `FORMS`: any codes, and small finite factors."""
  rng = np.random.default_rng(seed)
  group, size = gguf.GGML_QUANT_SIZES[kind]
  raw = rng.integers(0, 256, (shape[0], shape[1] // group, size), np.uint8)
  form = quantised.FORMS[kind.name]
  scale = 0.1 / 2 ** (form.bits + 5 * (form.blocks > 1))
  factors = rng.normal(0, scale, (*raw.shape[:2], form.factors))
  place = slice(-2, None) if kind == TYPES.Q6_K else slice(2 * form.factors)
  raw[..., place] = factors.astype(np.float16).view(np.uint8)
  return raw.reshape(shape[0], -1)


def save(path, model, kind=TYPES.F32, **more):
  """Writes a model, its matrices in this type.

  Matrices whose GGUF names are in `kind`, a mapping, are random blocks.
  """
  config, parts = model.config, {}
  heads = {"q": config.num_attention_heads, "k": config.num_key_value_heads}
  for name, value in tensors(model).items():
    if config.model_type == "llama":
      for x, count in heads.items():
        if name.endswith(f"self_attn.{x}_proj.weight"):
          value = interleaved(value, count)
    named = own_name(name)
    own = kind.get(named.split(".")[-2]) if isinstance(kind, dict) else kind
    if value.ndim > 1 and isinstance(kind, dict) and own:
      value = (blocks(own, value.shape, seed=len(parts)), own)
    elif value.ndim > 1 and own not in (None, TYPES.F32):
      value = (gguf.quantize(value, own), own)
    parts[named] = value
  if isinstance(config.rope_scaling, rope.Llama3Scaling):
    plain, scaled = (
      rope.frequencies(config.rope_theta, config.head_dim, one)
      for one in (None, config.rope_scaling)
    )
    parts["rope_freqs.weight"] = plain / scaled
  values = metadata(config) | {
    name.replace("__", "."): value for name, value in more.items()
  }
  values = {name: value for name, value in values.items() if value is not None}
  return write(path, config.model_type, values, parts)


def bundled(folder, kind=TYPES.F32):
  """Writes the bundled target, with its tokenizer and matrices of a type."""
  source = BUNDLED / "target"
  raw = json.loads((source / "tokenizer.json").read_text())
  told = of_tokenizer(
    raw,
    pre="smollm",
    add_bos_token=True,
    bos_token_id=1,
    eos_token_id=2,
    padding_token_id=0,
  )
  told["tokenizer.chat_template"] = (source / "chat_template.jinja").read_text()
  model = models.load(source, "float32")
  return save(folder / "target.gguf", model, kind, **told)
