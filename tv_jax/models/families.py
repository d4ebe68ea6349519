"""Kinds of models, by `model_type` in config.json: a line of `FAMILIES` each.

What a family computes beside a Llama is a field here, which `decoder.Layer`
reads.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping


@dataclasses.dataclass(frozen=True, kw_only=True)
class Family:
  """A kind of model.

  Attributes:
    name: What errors call it.
    architecture: Hugging Face's class of the language model.
    fixed: Attributes of config.json with the one value that is supported; one
      that is False may be missing.
    required: More attributes that must be there.
    optional: More attributes that may be there: without windows of attention
      they change nothing.
    qkv_bias: Whether queries, keys and values have a bias.
    query_key_norm: Whether queries and keys are normalised, head by head.
  """

  name: str
  architecture: str
  fixed: Mapping[str, object]
  required: tuple[str, ...] = ()
  optional: tuple[str, ...] = ()
  qkv_bias: bool = False
  query_key_norm: bool = False


_WINDOWS = ("sliding_window", "max_window_layers", "layer_types")

FAMILIES = {
  # Touvron et al. 2023; Grattafiori et al. 2024
  "llama": Family(
    name="Llama",
    architecture="LlamaForCausalLM",
    fixed={"hidden_act": "silu", "attention_bias": False, "mlp_bias": False},
  ),
  # And Qwen2.5: Yang et al. 2024, arXiv:2407.10671
  "qwen2": Family(
    name="Qwen2",
    architecture="Qwen2ForCausalLM",
    fixed={
      "hidden_act": "silu",
      "use_mrope": False,
      "use_sliding_window": False,
    },
    # The format's own value for it is none that follows from the others.
    required=("num_key_value_heads",),
    optional=_WINDOWS,
    qkv_bias=True,
  ),
  # The dense models: Yang et al. 2025, arXiv:2505.09388
  "qwen3": Family(
    name="Qwen3",
    architecture="Qwen3ForCausalLM",
    fixed={
      "hidden_act": "silu",
      "attention_bias": False,
      "use_sliding_window": False,
    },
    required=("num_key_value_heads", "head_dim"),
    optional=_WINDOWS,
    query_key_norm=True,
  ),
}
