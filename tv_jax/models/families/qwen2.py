"""Qwen2 and Qwen2.5, the dense models (Yang et al. 2024, arXiv:2407.10671).

A Llama whose queries, keys and values have biases. Letters as in decoder.py.
"""

import functools

import jax

from tv_jax.models import decoder, layout
from tv_jax.models.config import Config, Family
from tv_jax.models.families import qwen3


def add_biases(layer: decoder.Layer, qkv: jax.Array) -> jax.Array:
  """Adds the biases to `qkv` [B, T, G, P, C]."""
  return qkv + decoder.weight(layer, "qkv_bias", "GPC")[None, None]


def layer(config: Config, path: tuple[str, ...], prefix: str) -> list:
  """Returns a layer's parameters."""
  G, R, C = config.num_key_value_heads, config.heads_per_group, config.head_dim
  parts = tuple(
    layout.Part(
      name=f"{prefix}self_attn.{x}_proj.bias",
      shape=(G * count * C,),
      view=(G, count, C),
    )
    for x, count in zip("qkv", (R, 1, 1), strict=True)
  )
  bias = layout.Leaf(path=(*path, "qkv_bias"), axes="GPC", parts=parts, join=1)
  return [*layout.layer(config, path, prefix), bias]


FAMILY = Family(
  name="Qwen2",
  architecture="Qwen2ForCausalLM",
  fixed={"hidden_act": "silu", "use_mrope": False},
  # The format's own value for it is none that follows from the others.
  required=("num_key_value_heads",),
  optional=qwen3.WINDOWS,
  check=qwen3.windows,
  leaves=functools.partial(layout.decoder, layer=layer),
  module=functools.partial(decoder.Decoder, heads=add_biases),
)
