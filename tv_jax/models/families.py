"""Kinds of models, by `model_type` in config.json: a line of `FAMILIES` each.

What a family computes beside a Llama is a field here, which `decoder.Layer`
reads.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping

from tv_jax.edge import checks
from tv_jax.edge.reading import brief


def no_faults(raw: dict, faults: list[str]) -> None:
  """Is the `check` of a family that has nothing more to check."""
  del raw, faults


@dataclasses.dataclass(frozen=True, kw_only=True)
class Family:
  """A kind of model.

  Attributes:
    name: What errors call it.
    architecture: Hugging Face's class of the language model.
    fixed: Attributes of config.json with the one value that is supported; one
      that is False may be missing.
    required: More attributes that must be there.
    optional: More attributes that may be there, for `check` to read.
    check: (raw, faults): adds a line for each thing that is wrong with these.
    qkv_bias: Whether queries, keys and values have a bias.
    query_key_norm: Whether queries and keys are normalised, head by head.
  """

  name: str
  architecture: str
  fixed: Mapping[str, object]
  required: tuple[str, ...] = ()
  optional: tuple[str, ...] = ()
  check: Callable[[dict, list[str]], None] = no_faults
  qkv_bias: bool = False
  query_key_norm: bool = False


WINDOWS = (
  "use_sliding_window",
  "sliding_window",
  "max_window_layers",
  "layer_types",
)


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
    fixed={"hidden_act": "silu", "use_mrope": False},
    # The format's own value for it is none that follows from the others.
    required=("num_key_value_heads",),
    optional=WINDOWS,
    check=windows,
    qkv_bias=True,
  ),
  # The dense models: Yang et al. 2025, arXiv:2505.09388
  "qwen3": Family(
    name="Qwen3",
    architecture="Qwen3ForCausalLM",
    fixed={"hidden_act": "silu", "attention_bias": False},
    required=("num_key_value_heads", "head_dim"),
    optional=WINDOWS,
    check=windows,
    query_key_norm=True,
  ),
}
