"""The EAGLE-3 draft head (Li et al. 2025, arXiv:2503.01840), in Linen.

It sees each token beside the outputs of several of the target's layers at the
token before it, fused to one width. Between the levels of a tree what it put
out itself, before its last norm, stands for what is fused. Nothing asks it to
predict a feature of the target.

Its one layer attends over both side by side, and adds to the fused half alone.
Pairs have the positions that EAGLE-1's have (eagle.py).

Two layouts are published: DeepSpec's for Qwen3, and SafeAILab's for Llama,
which calls the layer `midlayer` and knows few of the target's tokens. A head's
family says of its layer whether queries and keys are normalised; that of its
target may be another one.

Letters as in decoder.py.
"""

import dataclasses
import functools
from collections.abc import Collection

import jax
import jax.numpy as jnp
from flax import linen as nn
from jax.sharding import Mesh

from tv_jax.edge import checks
from tv_jax.models import borrowed, decoder, layout, sharding
from tv_jax.models import cache as caches
from tv_jax.models import config as configs
from tv_jax.models.cache import Cache
from tv_jax.models.config import Config
from tv_jax.models.families import qwen3
from tv_jax.models.products import project

EMBEDDING, UNEMBEDDING = "embed_tokens.weight", "lm_head.weight"
# What the tensors of its layer are called: Qwen3's heads, and Llama's.
PREFIXES = ("layers.0.", "midlayer.")
# A layer's parameters, and what is done to its queries and keys, by family.
_FAMILIES = {
  "llama": (layout.layer, None),
  "qwen3": (qwen3.layer, qwen3.norm_heads),
}
# Tells a head of this kind from others.
_NORM = "hidden_norm.weight"


def _fields(values: dict) -> dict:
  """Returns the fields of `Config` that these attributes are."""
  return {
    "target_layers": values.get("target_layer_ids", ()),
    "norm_before_residual": values.get("norm_before_residual", False),
  }


_ONE = checks.integer(1, 1)
FORMAT = configs.DraftFormat(
  name="an EAGLE-3 head",
  architectures=(
    "Qwen3Eagle3Model",
    "LlamaForCausalLMEagle3",
    "Eagle3LlamaForCausalLM",
  ),
  attributes={
    "target_layer_ids": checks.list_of(checks.integer(decoder.INPUT)),
    "norm_before_residual": checks.boolean,
    "num_hidden_layers": _ONE,
    "draft_num_hidden_layers": _ONE,
    "tie_word_embeddings": checks.one_value(False),
    # Of its training, and of its target.
    "ttt_length": checks.anything,
    "step_loss_decay": checks.anything,
    "num_target_layers": checks.anything,
    "target_model_name_or_path": checks.anything,
  },
  fields=_fields,
)


def fitted(config: Config, target: Config, names: Collection[str], where):
  """Returns a head's configuration with what follows from its target's.

  Args:
    config: As it was read.
    target: The target's.
    names: Of the checkpoint's tensors: without an embedding it uses that of
      the target.
    where: What errors call the config.json.
  """
  check_family(config, f"{where}: an EAGLE-3 head")
  L = target.num_hidden_layers
  # By default those that SafeAILab's code takes.
  layers = config.target_layers or (1, L // 2 - 1, L - 4)
  if fault := borrowed.wrong_layers(layers, target, least=2):
    raise ValueError(f"{where}: {fault}")
  few = config.draft_vocab_size != config.vocab_size
  return dataclasses.replace(
    borrowed.fitted(config, target, where),
    target_layers=layers,
    draft_vocab_size=config.draft_vocab_size if few else None,
    shares_embedding=EMBEDDING not in names,
    tie_word_embeddings=False,
  )


def check_family(config: Config, what) -> None:
  """Refuses families of which no heads are known."""
  if config.model_type not in _FAMILIES:
    raise ValueError(
      f"{what} of model_type={config.model_type!r} is not supported, only"
      f" {', '.join(map(repr, _FAMILIES))}"
    )


def is_one(names: Collection[str]) -> bool:
  """Returns whether a checkpoint's tensors are those of such a head."""
  return any(prefix + _NORM in names for prefix in PREFIXES)


class Eagle3(nn.Module):
  """The head. The embedding may be the target's own.

  Attributes:
    config: The head's shape, with the target's vocabulary and width.
    mesh: The devices that it is split over, if more than one.
  """

  config: Config
  mesh: Mesh | None = None

  @nn.compact
  def __call__(
    self,
    tokens: jax.Array,
    features: jax.Array,
    positions: jax.Array,
    mask: jax.Array,
    cache: Cache,
  ) -> tuple[jax.Array, jax.Array, Cache]:
    """Processes T tokens of each row.

    Args:
      tokens: [B, T] int32.
      features: Of the token before each, its parent in a tree: [B, T, J] the
        target's, for committed tokens, or [B, T, E] the head's own.
      positions: [B, T] int32.
      mask: [B, T, S] float32, added to the attention's scores.
      cache: Their keys and values are written to it from its length on.

    Returns:
      Logits [B, T, V] float32 of the token after each, the head's features
      [B, T, E] of each, and the cache, longer by T.
    """
    config, mesh = self.config, self.mesh
    norm = functools.partial(decoder.rms_norm, epsilon=config.rms_norm_eps)
    embedding = decoder.weight(self, "embedding", "VE")
    with jax.named_scope("fuse"):
      token = decoder.embed(embedding, tokens, config, mesh)
      fc = decoder.weight(self, "fc", "EJ")
      x = features.astype(token.dtype)
      if x.shape[-1] != config.hidden_size:
        x = sharding.replicate(project(x, fc), mesh)
      token = norm(token, decoder.weight(self, "token_norm", "E"))
      normed = norm(x, decoder.weight(self, "feature_norm", "E"))
      both = jnp.concatenate([token, normed], axis=-1)
      if config.norm_before_residual:
        x = normed
    layer = decoder.layer(
      self,
      config=config,
      mesh=mesh,
      heads=_FAMILIES[config.model_type][1],
      attention_norm=False,
      name="layer",
    )
    x, keys, values = layer(
      x,
      decoder.rotation(config, positions),
      mask,
      cache.keys[0],
      cache.values[0],
      cache.length,
      both,
    )
    with jax.named_scope("unembed"):
      y = norm(x, decoder.weight(self, "norm", "E"))
      logits = decoder.unembed(self, embedding, y)
    length = cache.length + tokens.shape[1]
    return logits, x, Cache(keys=(keys,), values=(values,), length=length)


@functools.partial(jax.jit, static_argnames="config")
def init(key: jax.Array, config: Config) -> dict:
  """Makes random parameters, those of the target among them."""
  one = jnp.zeros([1, 1], jnp.int32)
  width = decoder.sizes(config)["J"]
  feature = jnp.zeros([1, 1, width], config.dtype)
  cache = caches.empty(config, 1, 1)
  mask = jnp.zeros([1, 1, 1])
  return dict(
    Eagle3(config).init(key, one, feature, one, mask, cache)["params"]
  )


def leaves(config: Config, names: Collection[str] = ()) -> list[layout.Leaf]:
  """Returns the parameters that are the head's own.

  Args:
    config: The head's.
    names: Of a checkpoint's tensors, which say what the layer is called there;
      without any it is as the family's published heads have it.
  """
  V, E = config.vocab_size, config.hidden_size
  U = config.draft_vocab_size
  llama = config.model_type == "llama"
  if is_one(names):
    llama = PREFIXES[1] + _NORM in names
  prefix = PREFIXES[llama]
  count = len(config.target_layers)

  def norm(path, name):
    return layout.whole((path,), "E", f"{name}.weight", (E,))

  own = [
    layout.whole(("fc",), "EJ", "fc.weight", (E, count * E)),
    norm("token_norm", f"{prefix}input_layernorm"),
    norm("feature_norm", f"{prefix}hidden_norm"),
    norm("norm", "norm"),
    layout.whole(
      ("unembedding",), "UE" if U else "VE", UNEMBEDDING, (U or V, E)
    ),
  ]
  if not config.shares_embedding:
    own.append(layout.whole(("embedding",), "VE", EMBEDDING, (V, E)))
  layer = _FAMILIES[config.model_type][0]
  return own + layer(
    config, ("layer",), prefix, attention_norm=False, inputs="I"
  )


def to_dict(config: Config) -> dict:
  """Returns what config.json says of a head beside what it says of a model."""
  raw: dict = {"target_layer_ids": [*config.target_layers]}
  if config.norm_before_residual:
    raw["norm_before_residual"] = True
  if config.model_type == "qwen3":
    raw["architectures"] = [FORMAT.architectures[0]]
  return raw
