"""The formats of checkpoints: attributes of config.json, names of tensors."""

import dataclasses
import re
from collections.abc import Callable, Collection, Mapping

from tv_jax.io import checks
from tv_jax.models.families import FAMILIES

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


@dataclasses.dataclass(frozen=True, kw_only=True, eq=False)
class Format:
  """The checkpoints of a kind of model, beyond what all have in common.

  Attributes:
    title: Name in messages.
    layouts: Names of the tensors by family, in all supported families. A
      checkpoint is recognised by them.
    architectures: Classes that config.json may name in place of the family's.
    required: Required attributes of config.json, each with a check.
    optional: Optional attributes, each with a check.
    fields: Makes fields of `Config` from the checked attributes.
  """

  title: str
  layouts: Mapping[str, Layout]
  architectures: tuple[str, ...] = ()
  required: Mapping[str, checks.Check] = dataclasses.field(default_factory=dict)
  optional: Mapping[str, checks.Check] = dataclasses.field(default_factory=dict)
  fields: Callable[[dict], dict] = lambda values: {}


LANGUAGE_MODEL = Format(
  title="a language model", layouts=dict.fromkeys(FAMILIES, MODEL)
)
