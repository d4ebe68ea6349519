"""The EAGLE-3 draft head (Li et al. 2025, arXiv:2503.01840), in Linen.

The head reads each token with the outputs of several target layers at the token
before it, fused to the model's width. For a drafted token, the head's output
before its final norm takes the place of the fused outputs. The head is not
trained to predict them.

The attention of its single layer reads token and fused outputs side by side.
The residual connection starts from the fused outputs alone. Positions are
counted as in eagle.py.

Two layouts are published: DeepSpec's for Qwen3, and SafeAILab's for Llama,
which calls the layer `midlayer` and knows only some of the target's tokens. The
head's family, which may differ from its target's, determines whether its layer
normalises queries and keys.

Letters as in decoder.py.
"""

import dataclasses

import jax
import jax.numpy as jnp
from flax import linen as nn
from jax.sharding import Mesh

from tv_jax.io import checks
from tv_jax.models import decoder, layout, products, sharding
from tv_jax.models.cache import Cache
from tv_jax.models.config import Config


def _complete(config: Config, target: Config, names) -> Config:
  """Completes a head's configuration; see `layout.Format`."""
  L, few = target.num_hidden_layers, config.draft_vocab_size
  return dataclasses.replace(
    config,
    # The default is SafeAILab's.
    target_layer_ids=config.target_layer_ids or (1, L // 2 - 1, L - 4),
    draft_vocab_size=None if few == config.vocab_size else few,
    shares_embedding="embed_tokens.weight" not in names,
    tie_word_embeddings=False,
  )


class Eagle3(nn.Module):
  """The head. The embedding may be the target's.

  Attributes:
    config: The head's shape, with the target's vocabulary and width.
    mesh: The mesh that splits the head, or None for one device.
  """

  config: Config
  mesh: Mesh | None = None
  format = layout.Format(
    title="an EAGLE-3 head",
    signature=r"(layers\.0|midlayer)\.hidden_norm\.weight",
    layouts={"qwen3": layout.DEEPSPEC_EAGLE3, "llama": layout.SAFEAI_EAGLE3},
    optional={
      "target_layer_ids": checks.list_of(checks.integer(decoder.INPUT)),
    },
    fixed={
      "num_hidden_layers": 1,
      "draft_num_hidden_layers": 1,
      "tie_word_embeddings": False,
    },
    complete=_complete,
  )

  @nn.compact
  def __call__(
    self,
    tokens: jax.Array,
    features: jax.Array,
    positions: jax.Array,
    mask: jax.Array,
    cache: Cache,
  ) -> tuple[jax.Array, jax.Array, Cache]:
    """Processes T tokens of each row, as `Eagle` does.

    The returned features are [B, T, E]. The target's features are wider,
    [B, T, J], which tells the two apart.
    """
    config, mesh = self.config, self.mesh
    table = decoder.embedding(self)
    with jax.named_scope("fuse"):
      token = products.rows(table, tokens, mesh)
      x = features.astype(token.dtype)
      E = config.hidden_size
      if x.shape[-1] != E:
        x = decoder.Dense(config, mesh, E, (None, None), name="fc")(x)
        x = sharding.replicate(x, mesh)
      token = decoder.RMSNorm(config, name="token_norm")(token)
      normed = decoder.RMSNorm(config, name="feature_norm")(x)
      both = jnp.concatenate([token, normed], axis=-1)
    (x,), cache = decoder.layers(
      self, x, positions, mask, cache, both, name="layer", attention_norm=False
    )
    with jax.named_scope("unembed"):
      y = decoder.RMSNorm(config, name="norm")(x)
      logits = decoder.unembed(self, table, y)
    return logits, x, cache

  @property
  def of_target(self) -> tuple[str, ...]:
    """Returns the parameters that it takes from its target."""
    shares = self.config.shares_embedding
    return ("embedding", "place") if shares else ("place",)
