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
  """The names in a checkpoint.

  Attributes:
    layer: Prefix of a layer's tensors, with {} for the layer's number.
    tensors: Names of all other tensors, by parameter.
    architectures: Classes that config.json may name in place of the family's;
      `save` writes the first.
  """

  layer: str
  tensors: Mapping[str, str]
  architectures: tuple[str, ...] = ()

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
)
EAGLE = Layout("layers.0.", {"fc/kernel": "fc.weight", "fc/bias": "fc.bias"})


def _eagle3(prefix: str, *architectures: str) -> Layout:
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
    architectures,
  )


DEEPSPEC_EAGLE3 = _eagle3("layers.0.", "Qwen3Eagle3Model", "Qwen3ForCausalLM")
SAFEAI_EAGLE3 = _eagle3(
  "midlayer.",
  "LlamaForCausalLM",
  "LlamaForCausalLMEagle3",
  "Eagle3LlamaForCausalLM",
)
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
  ("Qwen3DSparkModel", "Qwen3ForCausalLM"),
)


@dataclasses.dataclass(frozen=True, kw_only=True, eq=False)
class Format:
  """The checkpoints of a kind of model, beyond what all have in common.

  Attributes:
    title: Name in messages.
    signature: Matches a tensor's name in every such checkpoint.
    layouts: Names by family, in all supported families.
    required: Fields of `Config` that config.json must have, each with a check.
    optional: Fields of `Config` that it may have, each with a check.
    fixed: Attributes with one supported value.
    complete: Completes a draft's `Config`, given the target's and the names of
      the checkpoint's tensors.
  """

  title: str
  signature: str
  layouts: Mapping[str, Layout]
  required: Mapping[str, checks.Check] = dataclasses.field(default_factory=dict)
  optional: Mapping[str, checks.Check] = dataclasses.field(default_factory=dict)
  fixed: Mapping[str, object] = dataclasses.field(default_factory=dict)
  complete: Callable = lambda config, target, names: config

  def fits(self, names: Collection[str]) -> bool:
    """Returns whether tensors with these names can be such a checkpoint."""
    return any(re.fullmatch(self.signature, name) for name in names)


LANGUAGE_MODEL = Format(
  title="a language model",
  signature=r"model\.layers\..*",
  layouts=dict.fromkeys(FAMILIES, MODEL),
)
