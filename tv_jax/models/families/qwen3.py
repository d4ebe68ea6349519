"""Qwen3, the dense models (Yang et al. 2025, arXiv:2505.09388).

A Llama whose queries and keys are normalised, head by head, before they are
rotated. Letters as in decoder.py.
"""

import functools

import jax
import jax.numpy as jnp

from tv_jax.edge.reading import brief
from tv_jax.models import decoder, fields, layout
from tv_jax.models.config import Config
from tv_jax.models.family import Family

WINDOWS = (
  "use_sliding_window",
  "sliding_window",
  "max_window_layers",
  "layer_types",
)


def norm_heads(layer: decoder.Layer, qkv: jax.Array) -> jax.Array:
  """Normalises the queries and keys in `qkv` [B, T, G, P, C]."""
  R = layer.config.heads_per_group
  query, key = (decoder.weight(layer, f"{x}_norm", "C") for x in "qk")
  scale = jnp.stack([query] * R + [key])
  turned, value = jnp.split(qkv, [R + 1], axis=-2)
  turned = decoder.rms_norm(turned, scale, layer.config.rms_norm_eps)
  return jnp.concatenate([turned, value], axis=-2)


def layer(config: Config, path: tuple[str, ...], prefix: str) -> list:
  """A layer's parameters."""
  norms = [
    layout.whole(
      (*path, f"{x}_norm"),
      "C",
      f"{prefix}self_attn.{x}_norm.weight",
      (config.head_dim,),
    )
    for x in "qk"
  ]
  return layout.layer(config, path, prefix) + norms


def windows(raw: dict, faults: list[str]) -> None:
  """Refuses windows of attention that some layer would have.

  As the format says: `layer_types` where it is given; else, from layer
  `max_window_layers` on, a window of `sliding_window` if `use_sliding_window`.
  """
  used = fields.flag(raw, "use_sliding_window", faults, False)
  fields.count(raw, "sliding_window", faults)
  first = fields.count(raw, "max_window_layers", faults, least=0)
  layers = raw.get("num_hidden_layers")
  kinds = raw.get("layer_types")
  if kinds is not None:
    if (
      not isinstance(kinds, list)
      or len(kinds) != layers
      or any(kind != "full_attention" for kind in kinds)
    ):
      faults.append(
        f"layer_types={brief(kinds)} is not supported, only 'full_attention',"
        f" once for each of the {brief(layers)} layers"
      )
    return
  # What is missing is not null: the format has a width and a layer for it.
  endless = raw.get("sliding_window", ...) is None
  if used and not endless and _below(first, layers):
    faults.append(
      "use_sliding_window=True is not supported, only False: layers from"
      f" max_window_layers={first} on would have a window"
    )


def _below(first, layers) -> bool:
  """Whether some layer comes after the first ones; unless that is unknown."""
  known = isinstance(first, int) and isinstance(layers, int)
  return first is None or (known and first < layers)


FAMILY = Family(
  name="Qwen3",
  architecture="Qwen3ForCausalLM",
  fixed={"hidden_act": "silu", "attention_bias": False},
  # The format's own values for these are none that follow from the others.
  required=("num_key_value_heads", "head_dim"),
  optional=WINDOWS,
  check=windows,
  leaves=functools.partial(layout.decoder, layer=layer),
  module=functools.partial(decoder.Decoder, heads=norm_heads),
)
