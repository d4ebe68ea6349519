"""Families of models: an entry of `FAMILIES` for each `model_type`.

A field of `Family` gives each difference from a Llama. `decoder.Layer` reads
these fields.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping


@dataclasses.dataclass(frozen=True, kw_only=True)
class Family:
  """A family of models.

  Attributes:
    architecture: Hugging Face's class of the language model.
    fixed: Attributes of config.json with their only supported value. If that
      value is False, the attribute may be missing.
    required: Additional required attributes.
    optional: Additional optional attributes. They have no effect without
      attention windows.
    qkv_bias: Whether queries, keys and values have a bias.
    query_key_norm: Whether the queries and keys of each head are normalised.
  """

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
    architecture="LlamaForCausalLM",
    fixed={"hidden_act": "silu", "attention_bias": False, "mlp_bias": False},
  ),
  # Yang et al. 2024, arXiv:2407.10671; also Qwen2.5
  "qwen2": Family(
    architecture="Qwen2ForCausalLM",
    fixed={
      "hidden_act": "silu",
      "use_mrope": False,
      "use_sliding_window": False,
    },
    # The format's default does not follow from the other attributes.
    required=("num_key_value_heads",),
    optional=_WINDOWS,
    qkv_bias=True,
  ),
  # Yang et al. 2025, arXiv:2505.09388; only dense models
  "qwen3": Family(
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
