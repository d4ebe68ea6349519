"""The tensor names of parameters, in a table for each kind of checkpoint.

Modules define the shapes and axis names of their parameters. A matrix is
[out, in] in both. A parameter may hold several tensors with interleaved rows:
queries, keys and values in `qkv`, gate and up in `gate_up`.
"""

import dataclasses
import pathlib
import re
from collections.abc import Callable, Collection, Mapping
from typing import NamedTuple

import numpy as np

from tv_jax.models.config import Config
from tv_jax.models.quantised import Form

Path = tuple[str, ...]

EMBEDDING = "model.embed_tokens.weight"
UNEMBEDDING = "lm_head.weight"  # absent if tied to the embedding

# Tensors that are read only if a parameter needs them. Some checkpoints store
# the frequencies that rope.py computes; the target's or tied embeddings again;
# and the known tokens of a draft that knows all, or in a second form.
IGNORED = re.compile(
  r"(model\.)?layers\.\d+\.self_attn\.rotary_emb\.inv_freq"
  r"|embed_tokens\.weight|lm_head\.weight|d2t|t2d"
)

# A layer's tensors, without the layout's prefix.
_LAYER = {
  "attention_norm/scale": "input_layernorm.weight",
  "qkv/kernel": "self_attn.{}_proj.weight",
  "qkv/bias": "self_attn.{}_proj.bias",
  "head_norms/query": "self_attn.q_norm.weight",
  "head_norms/key": "self_attn.k_norm.weight",
  "out/kernel": "self_attn.o_proj.weight",
  "mlp_norm/scale": "post_attention_layernorm.weight",
  "gate_up/kernel": "mlp.{}_proj.weight",
  "down/kernel": "mlp.down_proj.weight",
}


@dataclasses.dataclass(frozen=True)
class Layout:
  """Tensor names of a kind of checkpoint.

  Attributes:
    layer: Prefix of a layer's tensors, with {} for the layer's number.
    tensors: Names of all other tensors, by parameter.
    signature: Matches a tensor's name in every such checkpoint.
    foreign: Matches no tensor's name in such a checkpoint.
  """

  layer: str
  tensors: Mapping[str, str]
  signature: str
  foreign: str = ""

  def fits(self, names: Collection[str]) -> bool:
    """Returns whether tensors with these names can be such a checkpoint."""

    def has(pattern):
      return any(re.fullmatch(pattern, name) for name in names)

    return has(self.signature) and not has(self.foreign)

  def name(self, path: Path) -> str:
    """Returns the name of a parameter's tensor, with {} if it has several."""
    if not path[0].startswith("layer"):
      return self.tensors["/".join(path)]
    number = path[0].removeprefix("layers_")
    return self.layer.format(number) + _LAYER["/".join(path[1:])]


MODEL = Layout(
  "model.layers.{}.",
  {
    "embedding": EMBEDDING,
    "norm/scale": "model.norm.weight",
    "unembedding": UNEMBEDDING,
  },
  signature=r"model\.layers\..*",
)
EAGLE = Layout(
  "layers.0.",
  {"fc/kernel": "fc.weight", "fc/bias": "fc.bias"},
  signature=r"fc\.weight",
  foreign=r"(.*\.)?hidden_norm\.weight",
)


def _eagle3(prefix: str) -> Layout:
  return Layout(
    prefix,
    {
      "embedding": "embed_tokens.weight",
      "fc/kernel": "fc.weight",
      "token_norm/scale": f"{prefix}input_layernorm.weight",
      "feature_norm/scale": f"{prefix}hidden_norm.weight",
      "norm/scale": "norm.weight",
      "unembedding": UNEMBEDDING,
    },
    signature=rf"{re.escape(prefix)}hidden_norm\.weight",
  )


DEEPSPEC_EAGLE3 = _eagle3("layers.0.")
SAFEAI_EAGLE3 = _eagle3("midlayer.")
DSPARK = Layout(
  "layers.{}.",
  {
    "fc/kernel": "fc.weight",
    "context_norm/scale": "hidden_norm.weight",
    "norm/scale": "norm.weight",
    "markov/before": "markov_head.markov_w1.weight",
    "markov/next": "markov_head.markov_w2.weight",
    "markov/sure/kernel": "confidence_head.proj.weight",
    "markov/sure/bias": "confidence_head.proj.bias",
  },
  signature=r"hidden_norm\.weight",
)


class StoredTensor(NamedTuple):
  """A tensor in a file."""

  path: pathlib.Path
  shape: tuple[int, ...]
  dtype: str  # by safetensors' names
  rows: Callable[[int, int], np.ndarray]  # reads rows from start to stop
  form: Form | None = None  # of a quantised matrix
  words: Callable[[int, int], np.ndarray] | None = None  # reads its words


@dataclasses.dataclass(frozen=True)
class Weight:
  """A parameter and its tensors.

  Attributes:
    shape: The parameter's shape.
    axes: The logical names of its axes.
    groups: Number of groups of rows. Each group holds some rows of each
      tensor, such as the queries, key and value of one head.
    tensors: Number of each tensor's rows in a group, by name.
  """

  shape: tuple[int, ...]
  axes: tuple[str | None, ...]
  groups: int
  tensors: Mapping[str, int]

  @classmethod
  def of(cls, layout: Layout, path: Path, box, config: Config) -> "Weight":
    """Finds a parameter in a layout; `box` has its shape and axes."""
    shape = box.value.shape
    name, groups, pieces = layout.name(path), shape[0], {"": 1}
    if "qkv" in path:
      groups = config.num_key_value_heads
      pieces = {"q": config.heads_per_group, "k": 1, "v": 1}
    elif "gate_up" in path:
      groups, pieces = config.intermediate_size, {"gate": 1, "up": 1}
    unit = shape[0] // (groups * sum(pieces.values()))
    rows = {name.format(x): n * unit for x, n in pieces.items()}
    return cls(shape, box.names, groups, rows)

  @property
  def shapes(self) -> dict[str, tuple[int, ...]]:
    """Returns the tensors' shapes, by name."""
    return {
      name: (self.groups * rows, *self.shape[1:])
      for name, rows in self.tensors.items()
    }

  def views(self, value: np.ndarray) -> dict[str, np.ndarray]:
    """Returns the views [groups, rows, ..] of a parameter, by tensor."""
    groups = value.reshape(self.groups, -1, *self.shape[1:])
    ends = np.cumsum([*self.tensors.values()])[:-1]
    views = np.split(groups, ends, axis=1)
    return dict(zip(self.tensors, views, strict=True))

  def split(self, value: np.ndarray) -> dict[str, np.ndarray]:
    """Returns the tensors of a parameter, by name."""
    return {
      name: np.ascontiguousarray(view).reshape(self.shapes[name])
      for name, view in self.views(value).items()
    }
