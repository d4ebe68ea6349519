"""Which tensors of a checkpoint make up which parameter, and how.

One record per parameter, so that reading, checking and writing are loops over
the same table. Weights keep PyTorch's [out, in]: tensors are put together by
reshape and concatenation alone. (products.py turns them after that.)
"""

import dataclasses
import math
import re
from collections.abc import Callable

import numpy as np

from tv_jax.models import products
from tv_jax.models.config import Config

EMBEDDING = "model.embed_tokens.weight"
UNEMBEDDING = "lm_head.weight"  # not there if it is the embedding
# Old conversions stored what is computed from the configuration.
IGNORED = re.compile(r"(model\.)?layers\.\d+\.self_attn\.rotary_emb\.inv_freq")


@dataclasses.dataclass(frozen=True, kw_only=True)
class Part:
  """One tensor of a checkpoint.

  Attributes:
    name: Its key.
    shape: Its shape there.
    view: Its shape as a piece of the parameter.
  """

  name: str
  shape: tuple[int, ...]
  view: tuple[int, ...]


@dataclasses.dataclass(frozen=True, kw_only=True)
class Leaf:
  """One parameter.

  Attributes:
    path: Where it is in the tree of parameters.
    axes: A letter for each axis, as in decoder.py.
    parts: What it is made of, in order.
    join: The axis along which the parts are concatenated.
  """

  path: tuple[str, ...]
  axes: str
  parts: tuple[Part, ...]
  join: int = 0

  @property
  def size(self) -> int:
    """Returns how many numbers it holds."""
    return sum(math.prod(part.shape) for part in self.parts)

  def out(self, config: Config) -> str:
    """Returns those of its axes that come out of its product, if it has one."""
    return products.channels(self.path[-1], self.axes, config)

  def channels(self, config: Config) -> str:
    """Returns the axes of its scale, if its numbers have eight bits."""
    return self.out(config) if config.quantised else ""

  def put_together(self, tensors: list[np.ndarray]) -> np.ndarray:
    """Makes the parameter from its tensors."""
    views = [
      tensor.reshape(part.view)
      for tensor, part in zip(tensors, self.parts, strict=True)
    ]
    return views[0] if len(views) == 1 else np.concatenate(views, self.join)

  def take_apart(self, value: np.ndarray) -> dict[str, np.ndarray]:
    """Returns the tensors of a parameter, by name."""
    ends = np.cumsum([part.view[self.join] for part in self.parts])[:-1]
    pieces = np.split(value, ends, self.join)
    return {
      part.name: np.ascontiguousarray(piece).reshape(part.shape)
      for part, piece in zip(self.parts, pieces, strict=True)
    }


def whole(path: tuple[str, ...], axes: str, name: str, shape, view=None):
  """Returns a parameter that is one tensor."""
  part = Part(name=name, shape=shape, view=view or shape)
  return Leaf(path=path, axes=axes, parts=(part,))


def layer(
  config: Config,
  path: tuple[str, ...],
  prefix: str,
  *,
  attention_norm: bool = True,
  inputs: str = "E",
) -> list[Leaf]:
  """Returns the parameters of `decoder.Layer`.

  Args:
    config: The model's.
    path: Of the layer, in the tree of parameters.
    prefix: Of its tensors' names.
    attention_norm: As of `decoder.Layer`.
    inputs: The axis of what its attention reads: E, or I for 2 E.
  """
  E, F = config.hidden_size, config.intermediate_size
  G, R, C = config.num_key_value_heads, config.heads_per_group, config.head_dim

  def several(name, axes, views, tensor, width=E):
    parts = tuple(
      Part(
        name=prefix + tensor.format(x),
        shape=(math.prod(view), width),
        view=(*view, width),
      )
      for x, view in views.items()
    )
    return Leaf(path=(*path, name), axes=axes, parts=parts, join=1)

  def one(name, axes, tensor, shape, view=None):
    return whole((*path, name), axes, f"{prefix}{tensor}.weight", shape, view)

  norm = one("attention_norm", "E", "input_layernorm", (E,))
  return [
    *([norm] if attention_norm else []),
    several(
      "qkv",
      f"GPC{inputs}",
      {x: (G, count, C) for x, count in zip("qkv", (R, 1, 1), strict=True)},
      "self_attn.{}_proj.weight",
      {"E": E, "I": 2 * E}[inputs],
    ),
    one("out", "EGRC", "self_attn.o_proj", (E, G * R * C), (E, G, R, C)),
    one("mlp_norm", "E", "post_attention_layernorm", (E,)),
    several(
      "gate_up",
      "F2E",
      dict.fromkeys(("gate", "up"), (F, 1)),
      "mlp.{}_proj.weight",
    ),
    one("down", "EF", "mlp.down_proj", (E, F)),
  ]


def decoder(
  config: Config, layer: Callable[[Config, tuple[str, ...], str], list] = layer
) -> list[Leaf]:
  """Returns the parameters of `decoder.Decoder`, its layers' by `layer`."""
  V, E = config.vocab_size, config.hidden_size
  leaves = [
    whole(("embedding",), "VE", EMBEDDING, (V, E)),
    whole(("norm",), "E", "model.norm.weight", (E,)),
  ]
  if not config.tie_word_embeddings:
    leaves.append(whole(("unembedding",), "VE", UNEMBEDDING, (V, E)))
  if config.shares_embedding:
    leaves = leaves[1:2]
  for i in range(config.num_hidden_layers):
    leaves += layer(config, (f"layers_{i}",), f"model.layers.{i}.")
  return leaves


def size(leaves: list[Leaf], config: Config) -> int:
  """Returns the bytes of these parameters as the configuration has them."""
  itemsize = 4 if config.dtype == "float32" else 2

  def own(leaf):
    if not (kept := len(leaf.channels(config))):
      return itemsize * leaf.size
    rows = sum(math.prod(part.view[:kept]) for part in leaf.parts)
    return leaf.size + 4 * rows

  return sum(map(own, leaves))
