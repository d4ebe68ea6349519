"""Qwen3, the dense models (Yang et al. 2025, arXiv:2505.09388).

A Llama whose queries and keys are normalised, head by head, before they are
rotated. Letters as in decoder.py.
"""

import functools

import jax
import jax.numpy as jnp

from tv_jax.edge import checks
from tv_jax.edge.reading import brief
from tv_jax.models import decoder, layout
from tv_jax.models.config import Config, Family

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


def layer(
  config: Config, path: tuple[str, ...], prefix: str, **options
) -> list:
  """Returns a layer's parameters; `options` are those of `layout.layer`."""
  norms = [
    layout.whole(
      (*path, f"{x}_norm"),
      "C",
      f"{prefix}self_attn.{x}_norm.weight",
      (config.head_dim,),
    )
    for x in "qk"
  ]
  return layout.layer(config, path, prefix, **options) + norms


def windows(raw: dict, faults: list[str]) -> None:
  """Refuses windows of attention that some layer would have.

  The format says: `layer_types` where it is given; else, from layer
  `max_window_layers` on, a window of `sliding_window` if `use_sliding_window`.
  """
  limits = {"sliding_window": 1, "max_window_layers": 0}
  kinds = {name: checks.integer(least) for name, least in limits.items()}
  kinds["use_sliding_window"] = checks.boolean
  given = {name: raw[name] for name in kinds if raw.get(name) is not None}
  own = checks.fields({}, **kinds)(given, "", faults)
  layers, types = raw.get("num_hidden_layers"), raw.get("layer_types")
  if types is not None:
    if (
      not isinstance(types, list)
      or len(types) != layers
      or any(kind != "full_attention" for kind in types)
    ):
      faults.append(
        f"layer_types={brief(types)} is not supported, only 'full_attention',"
        f" once for each of the {brief(layers)} layers"
      )
    return
  # A null window is endless; a missing one has the format's width.
  endless = raw.get("sliding_window", ...) is None
  first = own.get("max_window_layers")
  some = first is None or not isinstance(layers, int) or first < layers
  if own.get("use_sliding_window") and not endless and some:
    faults.append(
      "use_sliding_window=True is not supported, only False: layers from"
      f" max_window_layers={first} on would have a window"
    )


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
