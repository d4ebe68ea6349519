"""Llama 1, 2 and 3 (Touvron et al. 2023; Grattafiori et al. 2024)."""

from tv_jax.models import decoder, layout
from tv_jax.models.config import Family

FAMILY = Family(
  name="Llama",
  architecture="LlamaForCausalLM",
  fixed={"hidden_act": "silu", "attention_bias": False, "mlp_bias": False},
  leaves=layout.decoder,
  module=decoder.Decoder,
)
