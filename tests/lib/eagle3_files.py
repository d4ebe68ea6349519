"""Random EAGLE-3 heads in the two published layouts.

Files, tensors and settings are named as in DeepSpec's heads for Qwen3 and in
SafeAILab's head for Llama-3.1-8B; shapes are small. NumPy makes every tensor
from the layout's name alone. So our code must reproduce the numbers that the
published code gave for the same tensors (eagle3_golden.json).
"""

import json

import numpy as np
from safetensors.numpy import save_file

from tests.lib import checkpoints, published

V, E, F, H, G = 48, 32, 56, 4, 2
TARGET_LAYERS = 8
KNOWN = 20  # tokens that the Llama head knows
PAIRS, LEVELS = 9, 4  # of a text, and drafted behind it with the root's

# DeepSpec's says which layers it reads; of the other they are the code's own.
DEEPSPEC = {
  **{x: y for x, y in published.QWEN3.items() if not x.startswith("rope_")},
  "architectures": ["Qwen3Eagle3Model"],
  "bos_token_id": 1,
  "draft_num_hidden_layers": 1,
  "eos_token_id": 2,
  "head_dim": 12,
  "hidden_size": E,
  "intermediate_size": F,
  "layer_types": ["full_attention"],
  "num_attention_heads": H,
  "num_hidden_layers": 1,
  "num_key_value_heads": G,
  "num_target_layers": TARGET_LAYERS,
  "rope_parameters": {"rope_theta": 100.0, "rope_type": "default"},
  "step_loss_decay": 0.8,
  "target_layer_ids": [0, 2, 3, 5, 6],
  "target_model_name_or_path": "Qwen/Qwen3-8B",
  "tie_word_embeddings": False,
  "ttt_length": 7,
  "vocab_size": V,
}
SAFEAILAB = {
  "architectures": ["LlamaForCausalLM"],
  "bos_token_id": 1,
  "draft_vocab_size": KNOWN,
  "eos_token_id": 2,
  "hidden_act": "silu",
  "hidden_size": E,
  "initializer_range": 0.02,
  "intermediate_size": F,
  "max_position_embeddings": 2048,
  "model_type": "llama",
  "num_attention_heads": H,
  "num_hidden_layers": 1,
  "num_key_value_heads": G,
  "pad_token_id": 0,
  "rms_norm_eps": 1e-05,
  "tie_word_embeddings": False,
  "torch_dtype": "float16",
  "transformers_version": "4.28.1",
  "use_cache": True,
  "vocab_size": V,
}
CONFIGS = {"deepspec": DEEPSPEC, "safeailab": SAFEAILAB}
LAYERS = {"deepspec": (0, 2, 3, 5, 6), "safeailab": (1, 3, 4)}
PREFIX = {"deepspec": "layers.0.", "safeailab": "midlayer."}


def shapes(layout):
  """The weights of a head, by name."""
  C, at = CONFIGS[layout].get("head_dim", E // H), PREFIX[layout]
  few = layout == "safeailab"
  found = {
    "fc.weight": (E, len(LAYERS[layout]) * E),
    "lm_head.weight": (KNOWN if few else V, E),
    "norm.weight": (E,),
    f"{at}hidden_norm.weight": (E,),
    f"{at}input_layernorm.weight": (E,),
    f"{at}mlp.down_proj.weight": (E, F),
    f"{at}mlp.gate_proj.weight": (F, E),
    f"{at}mlp.up_proj.weight": (F, E),
    f"{at}post_attention_layernorm.weight": (E,),
    f"{at}self_attn.k_proj.weight": (G * C, 2 * E),
    f"{at}self_attn.o_proj.weight": (E, H * C),
    f"{at}self_attn.q_proj.weight": (H * C, 2 * E),
    f"{at}self_attn.v_proj.weight": (G * C, 2 * E),
  }
  if not few:
    found["embed_tokens.weight"] = (V, E)
    found |= {f"{at}self_attn.{x}_norm.weight": (C,) for x in "qk"}
  return found


def tensors(layout):
  """A head's tensors; weights are large, so that every part matters."""
  rng = np.random.default_rng([*layout.encode()])
  found = {}
  for name, shape in sorted(shapes(layout).items()):
    mean, deviation = (1, 0.3) if len(shape) == 1 else (0, 0.2)
    found[name] = rng.normal(mean, deviation, shape).astype(np.float32)
  if layout == "safeailab":
    tokens = np.sort(rng.permutation(V)[:KNOWN])
    found["d2t"] = tokens - np.arange(KNOWN)
    found["t2d"] = np.isin(np.arange(V), tokens)
  return found


def given(layout):
  """The target's embedding [V, E], tokens, and features of a text."""
  rng = np.random.default_rng([*layout.encode(), 1])
  embedding = rng.normal(0, 0.2, (V, E)).astype(np.float32)
  tokens = rng.integers(0, V, PAIRS + LEVELS - 1)
  J = len(LAYERS[layout]) * E
  features = rng.normal(size=(PAIRS, J)).astype(np.float32)
  return embedding, tokens, features


def publish(directory, layout, *, change=None, **settings):
  """Writes a head; `change` takes its tensors. Returns these."""
  directory.mkdir(parents=True, exist_ok=True)
  found = tensors(layout)
  if change:
    change(found)
  save_file(found, directory / "model.safetensors", metadata={"format": "pt"})
  (directory / "config.json").write_text(json.dumps(CONFIGS[layout] | settings))
  return found


def target(layout):
  """A model of ours that such a head can draft for."""
  config = checkpoints.tiny(
    num_hidden_layers=TARGET_LAYERS,
    model_type="qwen3" if layout == "deepspec" else "llama",
  )
  assert (config.vocab_size, config.hidden_size) == (V, E)
  return checkpoints.ours(config)
